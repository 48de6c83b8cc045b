"""The walk: a request for each admin route, who may make it, and a server with letters of two tenants."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from redrive import Redrive
from redrive.office.access import Access, Role
from redrive.office.audit import Actor
from redrive.web.server import serve
from redrive.wiring import load
from tests.conformance.makers import dead
from tests.web.admin.asking import DLQ

KEYS = [
    (role, tenant)
    for role in Role
    for tenant in (None, "acme", "globex")
    if role is not Role.SUBMIT or tenant is not None
]
SECRET = "the-secret-of-acme"  # noqa: S105 - what must not be seen
READERS = frozenset({Role.VIEWER, Role.OPERATOR, Role.ADMIN})
OPERATORS = frozenset({Role.OPERATOR, Role.ADMIN})
ADMINS = frozenset({Role.ADMIN})


@dataclass(frozen=True)
class Step:
    """One request about acme's things; `others` is what a key of globex gets where that is another status."""

    method: str
    path: str
    roles: frozenset[Role]
    status: int = 200
    others: int | None = None
    unbound: bool = False
    query: str = ""
    body: Any = None

    def expected(self, role: Role, tenant: str | None) -> int:
        if role not in self.roles or (self.unbound and tenant is not None):
            return 403
        return self.others if tenant == "globex" and self.others is not None else self.status


WALK = (
    Step("GET", "/queues", READERS),
    Step("GET", "/queues/{queue}/messages", READERS, others=404),
    Step("POST", "/queues/{queue}/re-drive", OPERATORS, 202, others=404, body={"limit": 5}),
    Step("GET", "/letters", READERS),
    Step("GET", "/letters/{id}", READERS, others=404),
    Step("GET", "/messages", READERS, others=404, query="tenant=acme"),
    Step("POST", "/messages/remove", OPERATORS, others=404, query="tenant=acme"),
    Step("GET", "/messages/{id}", READERS, others=404),
    # Editing is off here, so that nobody may, whatever the role.
    Step("POST", "/letters/{id}/edit", frozenset(), 403, body={"payload": {}}),
    Step("GET", "/export", READERS),
    Step("GET", "/groups", READERS, query="by=tenant"),
    Step("GET", "/group", READERS, query="by=tenant&key=acme"),
    Step("PUT", "/group", OPERATORS, query="by=tenant&key=acme", body={"state": "resolved"}),
    Step("POST", "/group/notes", OPERATORS, query="by=tenant&key=acme", body={"text": "seen"}),
    Step("GET", "/shape", READERS),
    Step("GET", "/destinations", READERS, others=404, query="queue=of-acme"),
    Step("POST", "/operations", OPERATORS, 202, body={"kind": "discard", "filter": "tenant:acme"}),
    Step("GET", "/operations", READERS),
    Step("GET", "/operations/{id}", READERS, others=404),
    Step("POST", "/operations/{id}/pause", OPERATORS, 409, others=404),
    Step("POST", "/operations/{id}/resume", OPERATORS, 409, others=404),
    Step("POST", "/operations/{id}/cancel", OPERATORS, 409, others=404),
    Step("GET", "/audit", ADMINS, unbound=True),
    Step("GET", "/audit/verify", ADMINS, unbound=True),
    Step("POST", "/sql", ADMINS, unbound=True, body={"saved": "by-code"}),
    Step("GET", "/keys", ADMINS, unbound=True),
    Step("POST", "/keys", ADMINS, unbound=True, body={"role": "viewer"}),
    Step("POST", "/keys/{id}/rotate", ADMINS, unbound=True, body={}),
    Step("POST", "/keys/{id}/revoke", ADMINS, unbound=True),
    Step("GET", "/status", READERS, unbound=True),
    Step("GET", "/alerts", READERS),
    Step("GET", "/alerts/rules", READERS, unbound=True),
    Step("POST", "/alerts/test", OPERATORS, 404, unbound=True, body={"channel": "none"}),
    Step("POST", "/alerts/silences", OPERATORS, unbound=True, body={"alert": "dlq_high", "forS": 60}),
    Step("DELETE", "/alerts/silences/{id}", OPERATORS, 404, unbound=True),
    Step("POST", "/queues/{queue}/pause", OPERATORS, unbound=True),
    Step("POST", "/queues/{queue}/resume", OPERATORS, unbound=True),
    Step("DELETE", "/queues/{queue}", OPERATORS, 409, unbound=True),
    Step("GET", "/queues/{queue}/tenants", READERS, others=404),
    Step("GET", "/tenants/{tenant}", READERS, others=404),
    Step("PATCH", "/tenants/{tenant}", OPERATORS, unbound=True, body={"weight": 1}),
    Step("POST", "/tenants/{tenant}/pause", OPERATORS, others=404),
    Step("POST", "/tenants/{tenant}/resume", OPERATORS, others=404),
)


@dataclass(frozen=True)
class Filled:
    """A server whose store has letters of acme and of globex."""

    client: httpx.AsyncClient
    keys: dict[tuple[Role, str | None], str]
    names: dict[str, str]

    async def ask(self, step: Step, role: Role, tenant: str | None) -> httpx.Response:
        return await self.send(step, {"Authorization": f"Bearer {self.keys[role, tenant]}"})

    async def send(self, step: Step, headers: dict[str, str]) -> httpx.Response:
        rooms = {"operations": "operation", "keys": step.path.rpartition("/")[2]}
        named = rooms.get(step.path.split("/")[1], "letter")
        path = DLQ + step.path.format(id=self.names.get(named), **self.names)
        return await self.client.request(
            step.method, path, params=step.query, json=step.body, headers=headers
        )


async def fill(folder: Path, url: str) -> AsyncIterator[Filled]:
    settings = load({"store": url}, environ={}, folder=folder)
    async with Redrive(settings=settings) as app:
        body = b'{"text": "%s"}' % SECRET.encode()
        (letter,) = await dead(app.store, 1, queue="of-acme", body=body, tenant="acme")
        await dead(app.store, 1, queue="of-globex", tenant="globex")
        access = Access(app.store, Actor("test", "test"))
        spare = {verb: (await access.create(Role.VIEWER, None))[0].id for verb in ("rotate", "revoke")}
        keys = {(role, tenant): (await access.create(role, tenant))[1] for role, tenant in KEYS}
        async with (
            serve(app, "127.0.0.1:0") as server,
            httpx.AsyncClient(base_url=server.url, timeout=60) as client,
        ):
            names = {"queue": "of-acme", "letter": letter, "tenant": "acme", "operation": "none", **spare}
            filled = Filled(client, keys, names)
            order = Step("POST", "/operations", OPERATORS, body={"kind": "discard", "ids": [letter]})
            started = await filled.ask(order, Role.OPERATOR, "acme")
            operation = started.json()["id"]
            cancel = Step("POST", f"/operations/{operation}/cancel", OPERATORS)
            assert (await filled.ask(cancel, Role.OPERATOR, "acme")).status_code == 200
            yield Filled(client, keys, names | {"operation": operation})
