"""The admin routes over HTTP, on a broker: its queues by their own names, its counts, and the way back."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx

from redrive import Permanent, Redrive
from redrive.core.message import Delivery
from redrive.office.access import Access, Role
from redrive.office.audit import Actor
from redrive.web.server import serve
from tests.brokers.apps import RabbitBroker, body, some_letters, working
from tests.waiting import wait_until


@asynccontextmanager
async def served(app: Redrive, role: Role) -> AsyncIterator[httpx.AsyncClient]:
    """A client with a key of a role, on a real server."""
    _, key = await Access(app.store, Actor("test", "test")).create(role, None)
    async with (
        serve(app, "127.0.0.1:0") as server,
        httpx.AsyncClient(base_url=server.url, headers={"Authorization": f"Bearer {key}"}) as client,
    ):
        yield client


async def test_the_routes_take_and_show_the_brokers_own_names_and_counts(broker: RabbitBroker) -> None:
    app, seen = broker.make_app(), list[Delivery]()

    @app.handler("q.one")
    async def handle(payload: object, delivery: Delivery) -> None:
        seen.append(delivery)
        if not delivery.progress.generation:
            raise Permanent("not now")

    async with working(app):
        await app.submit("q.one", {"n": 1})
        (letter,) = await some_letters(app, "q.one")
    await broker.put("q.two", body(n=2))
    await broker.put("q.two.dlq", body(n=3))

    async with app, served(app, Role.VIEWER) as viewer:

        async def are_counted() -> bool:
            listed = (await viewer.get("/admin/dlq/queues")).json()["queues"]
            by_name = {one["queue"]: (one["dlq"], one["broker"]) for one in listed}
            counts = [(1, {"waiting": 0, "dlq": 0}), (0, {"waiting": 1, "dlq": 1})]
            return [by_name["q.one"], by_name["q.two"]] == counts

        await wait_until(are_counted, 20, "the counts of both queues, here and on the broker")
        page = (await viewer.get("/admin/dlq/queues/q.one.dlq/messages", params={"limit": 20})).json()
        assert [one["jobId"] for one in page["messages"]] == [letter.message.id]
        refused = await viewer.post("/admin/dlq/queues/q.one.dlq/re-drive", json={"limit": 10})
        assert refused.status_code == 403
    assert await broker.depth("q.two.dlq") == 1, "looking takes nothing"

    async with working(app), served(app, Role.OPERATOR) as operator:
        answer = await operator.post("/admin/dlq/queues/q.one.dlq/re-drive", json={"limit": 10})
        assert answer.is_success, answer.text
        await wait_until(lambda: len(seen) == 2, 20, "it runs again")
    assert seen[1].message.headers["x-redriven-count"] == "1"
