"""`/health`: is the process alive, can it work, and how full is the outbox.

Liveness and readiness need no key, say nothing else, and do not depend on how many letters are dead.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import msgspec
from starlette.responses import Response

from redrive.core.errors import StoreError
from redrive.core.store import Store
from redrive.office.access import KEY_RECORDS, Permission
from redrive.office.office import Office
from redrive.web import description
from redrive.web.access import PUBLIC, Call, Route
from redrive.web.admin.route import acting
from redrive.web.documents import respond
from redrive.web.problems import UNAVAILABLE, Refusal

_PATIENCE_S = 5.0


class Health(msgspec.Struct, frozen=True):
    """`live` or `ready`."""

    status: str


SCHEMAS = (Health,)


class HealthRoutes:
    """The routes; `ready` says whether the worker of this process, if it has one, reaches the store."""

    def __init__(self, store: Store, office: Office, ready: Callable[[], bool]) -> None:
        self._store = store
        self._office = office
        self._ready = ready

    def routes(self) -> list[Route]:
        return [
            Route(
                method="GET",
                path="/health/live",
                name="isLive",
                summary="Whether the process answers",
                allowed=PUBLIC,
                answer=self.live,
                described=description.public("Health"),
            ),
            Route(
                method="GET",
                path="/health/ready",
                name="isReady",
                summary="Whether the store can be reached, and the worker of this process runs",
                allowed=PUBLIC,
                answer=self.ready,
                described=description.public("Health"),
            ),
            Route(
                method="GET",
                path="/health/outbox",
                name="getOutboxHealth",
                summary="What waits, runs, is done and is dead, over all queues",
                allowed=frozenset({Permission.READ}),
                answer=self.outbox,
                described=description.reading("OutboxHealth"),
                unbound=True,
            ),
        ]

    async def live(self, _: Call) -> Response:
        return respond(200, Health("live"))

    async def ready(self, _: Call) -> Response:
        try:
            async with asyncio.timeout(_PATIENCE_S):
                await self._store.get_record(KEY_RECORDS, "none")
        except TimeoutError as error:
            raise StoreError("the store did not answer in time") from error
        if not self._ready():
            detail = "the worker of this process does not reach the store"
            raise Refusal(UNAVAILABLE, detail, headers={"Retry-After": "1"})
        return respond(200, Health("ready"))

    async def outbox(self, call: Call) -> Response:
        return respond(200, await acting(self._office, call).outbox.health())
