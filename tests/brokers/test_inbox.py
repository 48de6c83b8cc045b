"""Inbox mode: whatever fails between the broker and the ledger, each message comes in, and comes in once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from redrive import Redrive
from redrive.brokers.carried import CarriedStore
from redrive.core.message import Entry
from redrive.core.verdict import Reason
from tests.brokers.apps import RabbitBroker, body, some_letters, working
from tests.brokers.outage import Outage
from tests.brokers.server import RabbitServer
from tests.faults.proxy import open_proxy
from tests.waiting import wait_until

LIMITED = """
[queues."q.one"]
retry = "backoff"
delivery_limit = 2
"""


def carried(app: Redrive) -> CarriedStore:
    assert isinstance(app.store, CarriedStore)
    return app.store


def make_app(broker: RabbitBroker, seen: Counter[int], **flags: Any) -> Redrive:
    given: dict[str, Any] = {"queues.q.one.inbox": True, **flags}
    app = broker.make_app(**given)

    @app.handler("q.one")
    async def handle(payload: dict[str, int]) -> None:
        seen[payload["n"]] += 1

    return app


def is_of_queue(groups: Sequence[Sequence[Entry]]) -> bool:
    return groups[0][0].message.queue == "q.one"


async def is_empty(broker: RabbitBroker, queue: str) -> bool:
    return await broker.depth(queue) == 0


async def test_a_ledger_that_is_down_costs_a_message_none_of_its_deliveries(broker: RabbitBroker) -> None:
    seen = Counter[int]()
    app = make_app(broker, seen, topology=LIMITED)
    async with app:
        await carried(app).carrier.open()
        for n in range(5):
            await broker.put("q.one", body(n=n))
        outage = Outage(carried(app).ledger, "append", when=is_of_queue)
        async with working(app):
            await wait_until(lambda: outage.calls > 5, 30, "many tries")
            outage.end()
            await wait_until(lambda: len(seen) == 5, 20, "all ran")
            await wait_until(lambda: is_empty(broker, "q.one"), 20, "all are acknowledged")
    assert await broker.depth("q.one.dlq") == 0


@pytest.mark.parametrize("done", [False, True], ids=["not written", "written"])
async def test_a_message_runs_once_when_the_ledger_did_not_answer(broker: RabbitBroker, done: bool) -> None:
    """Two are of other software and equal; two share an id of ours and differ."""
    seen = Counter[int]()
    app = make_app(broker, seen)
    async with app:
        await carried(app).carrier.open()
        for _ in range(2):
            await broker.put("q.one", body(n=1), message_id="m-1")
        for n in (2, 3):
            await broker.put("q.one", body(n=n), headers={"x-redrive-id": "abc"})
        outage = Outage(carried(app).ledger, "append", when=is_of_queue, done=done)
        async with working(app):
            await wait_until(lambda: outage.calls > 3, 30, "some tries")
            outage.end()
            await wait_until(lambda: is_empty(broker, "q.one"), 20, "all are acknowledged")
            await wait_until(lambda: seen.total() >= 4, 20, "all ran")
    assert seen == {1: 2, 2: 1, 3: 1}


async def test_what_is_kept_while_the_connection_is_lost_runs_once_and_stalls_no_window(
    rabbitmq: RabbitServer, broker_url: str, broker: RabbitBroker, tmp_path: Path
) -> None:
    seen = Counter[int]()
    async with open_proxy(rabbitmq.port) as proxy:
        near = RabbitBroker(broker_url.replace(f":{rabbitmq.port}/", f":{proxy.port}/"), tmp_path)
        app = make_app(near, seen, broker__prefetch=3)
        async with app:
            await carried(app).carrier.open()
            for n in range(3):
                await broker.put("q.one", body(n=n))
            outage = Outage(carried(app).ledger, "append", when=is_of_queue)
            async with working(app):
                await wait_until(lambda: outage.calls > 1, 30, "the ledger was tried")
                await proxy.cut_now()
                tried = outage.calls
                await wait_until(lambda: outage.calls > tried + 1, 30, "it is tried again")
                outage.end()
                await wait_until(lambda: len(seen) == 3, 20, "all ran")
                for n in range(3, 6):
                    await broker.put("q.one", body(n=n))
                await wait_until(lambda: len(seen) == 6, 20, "the next ones ran")
        await near.close()
    assert set(seen.values()) == {1}


async def test_a_message_that_the_ledger_can_never_take_is_a_dead_letter_and_holds_up_nothing(
    broker: RabbitBroker,
) -> None:
    seen = Counter[int]()
    app = make_app(broker, seen)

    def is_odd(groups: Sequence[Sequence[Entry]]) -> bool:
        return any("odd" in entry.message.headers for group in groups for entry in group)

    async with app:
        await carried(app).carrier.open()
        for n in range(5):
            await broker.put("q.one", body(n=n), headers={"odd": "yes"} if n == 2 else {})
        Outage(carried(app).ledger, "append", when=is_odd, error=OverflowError("int too big"))
        async with working(app):
            await wait_until(lambda: len(seen) == 4, 20, "the others ran")
            (letter,) = await some_letters(app, "q.one")
    assert (letter.message.body, letter.reason) == (body(n=2), Reason.POISON)
    assert "OverflowError: int too big" in letter.failures[-1].reason
