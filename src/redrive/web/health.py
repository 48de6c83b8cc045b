"""`/health`: is the process alive, can it work, and how full is the outbox.

Liveness and readiness need no key, tell nothing else, and do not depend on how many letters are dead.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import msgspec
from starlette.responses import Response

from redrive.core.condition import Durability
from redrive.core.errors import StoreError
from redrive.core.ports import QueueCounts, Store
from redrive.core.verdict import Reason
from redrive.office.access import KEY_RECORDS, Permission
from redrive.office.index import Index, TimeLimit
from redrive.web import description
from redrive.web.access import PUBLIC, Call, Route
from redrive.web.answers import respond
from redrive.web.problems import FORBIDDEN, UNAVAILABLE, Refusal

_PATIENCE_S = 5.0
_DLQ_HIGH = 100
_RETRY_BACKLOG = 1_000


class Health(msgspec.Struct, frozen=True):
    """`live` or `ready`."""

    status: str


class Metrics(msgspec.Struct, frozen=True, rename="camel"):
    """The counts by state over all queues; `bounced` are those of `dlq` whose recipient is refused.

    `failed` is always 0, kept for older dashboards.
    """

    pending: int
    processing: int
    published: int
    failed: int
    dlq: int
    bounced: int
    retry_scheduled: int
    scheduled: int


class Alerts(msgspec.Struct, frozen=True, rename="camel"):
    """More than 100 dead letters besides those that bounced; more than 1,000 waiting retries."""

    dlq_high: bool
    retry_backlog: bool


class OutboxHealth(msgspec.Struct, frozen=True):
    """`healthy`, or `unhealthy` when more than 100 dead letters are there besides those that bounced."""

    status: str
    metrics: Metrics
    alerts: Alerts
    durability: Durability


SCHEMAS = (Health, OutboxHealth)


class HealthRoutes:
    """The routes; `ready` says whether the worker of this process, if it has one, reaches the store."""

    def __init__(self, store: Store, index: Index, ready: Callable[[], bool]) -> None:
        self._store = store
        self._index = index
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
        if call.credential.tenant is not None:
            raise Refusal(FORBIDDEN, "these counts are of all tenants: use a key that belongs to none")
        described = await self._store.describe()
        queues = await self._store.queues()
        metrics = _metrics(queues, await self._bounced(queues))
        alerts = Alerts(metrics.dlq - metrics.bounced > _DLQ_HIGH, metrics.retry_scheduled > _RETRY_BACKLOG)
        status = "unhealthy" if alerts.dlq_high else "healthy"
        return respond(200, OutboxHealth(status, metrics, alerts, described.durability))

    async def _bounced(self, queues: list[QueueCounts]) -> int:
        """Where there are too many to count in time, none: rather an alert too many than one too few."""
        if not any(one.dlq for one in queues):
            return 0
        try:
            return await self._index.count_reason(Reason.BOUNCED, _PATIENCE_S)
        except TimeLimit:
            return 0


def _metrics(queues: list[QueueCounts], bounced: int) -> Metrics:
    return Metrics(
        pending=sum(one.pending for one in queues),
        processing=sum(one.processing for one in queues),
        published=sum(one.published for one in queues),
        failed=0,
        dlq=sum(one.dlq for one in queues),
        bounced=bounced,
        retry_scheduled=sum(one.retry_scheduled for one in queues),
        scheduled=sum(one.scheduled for one in queues),
    )
