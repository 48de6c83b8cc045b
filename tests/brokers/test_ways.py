"""The ways in and out besides a handler: the outbox and its relay, inbox mode, a ledger on Redis."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from redrive import Permanent, Redrive, Submission
from redrive.core.errors import StoreUnavailable
from redrive.core.lifecycle import State
from redrive.core.message import Delivery
from redrive.office.audit import this_account
from tests.brokers.apps import RabbitBroker, body, some_letters, working
from tests.brokers.server import RabbitServer
from tests.faults.proxy import open_proxy
from tests.waiting import wait_until


async def test_what_is_submitted_while_the_broker_is_down_waits_and_is_relayed(
    rabbitmq: RabbitServer, broker_url: str, tmp_path: Path
) -> None:
    seen: list[int] = []
    async with open_proxy(rabbitmq.port) as proxy:
        port = proxy.port
    url = broker_url.replace(f":{rabbitmq.port}/", f":{port}/")
    app = RabbitBroker(url, tmp_path).make_app()

    @app.handler("q.one")
    async def handle(payload: dict[str, int]) -> None:
        seen.append(payload["n"])

    async with working(app):
        for n in range(20):
            await app.submit("q.one", {"n": n})
        assert await _state(app, "q.one:outbox") == (20, 0)
        async with open_proxy(rabbitmq.port, port):
            await wait_until(lambda: len(seen) == 20, 30, "all were relayed and handled")
            await wait_until(lambda: _all_relayed(app, 20), 20, "all are marked")
    assert sorted(seen) == list(range(20))


async def test_a_message_that_no_queue_takes_waits_and_is_told(
    broker: RabbitBroker, caplog: pytest.LogCaptureFixture
) -> None:
    topology = '[exchanges]\n"events" = "topic"\n[queues."q.one"]\nbindings = {"events" = ["a.*"]}\n'
    app, seen = broker.make_app(topology=topology), list[Any]()

    @app.handler("q.one")
    async def handle(payload: dict[str, int]) -> None:
        seen.append(payload["n"])

    async with working(app):
        receipt, _ = await app.submit_many(
            "events",
            [
                Submission({"n": 1}, headers={"routing-key": "nobody.wants.it"}),
                Submission({"n": 2}, headers={"routing-key": "a.b"}),
            ],
        )
        await wait_until(lambda: "no queue takes 1 messages" in caplog.text, 20, "it is told")
        await wait_until(lambda: seen == [2], 20, "its neighbour passed")
        account = await app.store.get(receipt.id)
        assert account is not None
        assert account.state in (State.WAITING, State.CLAIMED)
    assert seen == [2]


async def test_inbox_mode_runs_from_the_ledger_with_turns_for_tenants(broker: RabbitBroker) -> None:
    app = broker.make_app(**{"queues.q.one.inbox": True})
    order, go_on = list[str](), asyncio.Event()

    @app.handler("q.one", concurrency=1)
    async def handle(payload: dict[str, int], delivery: Delivery) -> None:
        await go_on.wait()
        order.append(delivery.message.tenant)

    async with working(app):
        await app.store.carrier.open()  # type: ignore[attr-defined]
        for n in range(30):
            await broker.put("q.one", body(n=n), headers={"x-redrive-tenant": "many"})
        await broker.put("q.one", body(n=30), headers={"x-redrive-tenant": "few"})
        await wait_until(lambda: _waits_in_ledger(app, 31), 20, "the ledger has all")
        assert await broker.depth("q.one") == 0
        go_on.set()
        await wait_until(lambda: len(order) == 31, 20, "all ran")
    assert order.index("few") < 15


async def test_a_connection_that_is_lost_while_the_ledger_is_busy_does_not_stall_the_inbox(
    rabbitmq: RabbitServer, broker_url: str, broker: RabbitBroker, tmp_path: Path
) -> None:
    """What the lost connection had comes again, and fills the whole window of the next one."""
    async with open_proxy(rabbitmq.port) as proxy:
        near = RabbitBroker(broker_url.replace(f":{rabbitmq.port}/", f":{proxy.port}/"), tmp_path)
        app, seen = near.make_app(**{"queues.q.one.inbox": True}, broker__prefetch=3), set[int]()

        @app.handler("q.one")
        async def handle(payload: dict[str, int]) -> None:
            seen.add(payload["n"])

        async with working(app):
            await app.store.carrier.open()  # type: ignore[attr-defined]
            with _held(tmp_path / "ledger" / "redrive.db"):
                for n in range(3):
                    await broker.put("q.one", body(n=n))
                await wait_until(lambda: _is_taken(app, broker), 20, "all are on their way into the ledger")
                await proxy.cut_now()
                await wait_until(lambda: _is_connected(app), 20, "the app has connected again")
            await wait_until(lambda: seen == {0, 1, 2}, 20, "all ran")
            for n in range(3, 6):
                await broker.put("q.one", body(n=n))
            await wait_until(lambda: len(seen) == 6, 20, "the next ones ran")
    assert await broker.depth("q.one") == 0


async def test_equal_messages_are_two_in_inbox_mode(broker: RabbitBroker) -> None:
    app, seen = broker.make_app(**{"queues.q.one.inbox": True}), list[int]()

    @app.handler("q.one")
    async def handle(payload: dict[str, int]) -> None:
        seen.append(payload["n"])

    async with working(app):
        await app.store.carrier.open()  # type: ignore[attr-defined]
        for _ in range(2):
            await broker.put("q.one", body(n=1), message_id="m-1")
        await wait_until(lambda: seen == [1, 1], 20, "both ran")


async def test_a_letter_of_an_inbox_queue_is_redriven_in_the_ledger(broker: RabbitBroker) -> None:
    app, seen = broker.make_app(**{"queues.q.one.inbox": True}), list[int]()

    @app.handler("q.one")
    async def handle(payload: dict[str, int], delivery: Delivery) -> None:
        seen.append(delivery.progress.generation)
        if not delivery.progress.generation:
            raise Permanent("not now")

    async with working(app):
        await app.store.carrier.open()  # type: ignore[attr-defined]
        await broker.put("q.one", body(n=1))
        await some_letters(app, "q.one")
        await app.dead_letters.redrive("queue:q.one")
        await wait_until(lambda: seen == [0, 1], 20, "it ran again")


async def test_two_machines_share_a_ledger_on_redis(broker: RabbitBroker, redis_url: str) -> None:
    ledger = f"{redis_url}?prefix=broker{uuid.uuid4().hex[:8]}"
    first, second = (
        broker.make_app(ledger=name, broker__ledger=ledger, office__index=None) for name in ("one", "two")
    )
    seen: list[Delivery] = []
    for app in (first, second):

        @app.handler("q.one")
        async def handle(payload: dict[str, int], delivery: Delivery) -> None:
            seen.append(delivery)
            if not delivery.progress.generation:
                raise Permanent("not now")

    async with working(first), working(second):
        for n in range(10):
            await first.submit("q.one", {"n": n})
        found = await some_letters(second, "q.one", 10)
        assert len(found) == 10
        operation = await second.dead_letters.redrive("queue:q.one")
        await wait_until(lambda: len(seen) == 20, 20, "all ran again")

        async def all_done() -> bool:
            return (await first.store.tally(operation.id)).done == 10

        await wait_until(all_done, 20, "the ledger knows their end")


async def test_a_letter_is_moved_to_another_queue_by_the_outbox(broker: RabbitBroker) -> None:
    app, seen = broker.make_app(), list[str]()

    @app.handler("q.one")
    async def fail(payload: dict[str, int]) -> None:
        raise Permanent("no")

    @app.handler("q.two")
    async def handle(payload: dict[str, int], delivery: Delivery) -> None:
        seen.append(delivery.message.headers["x-redriven-queue"])

    async with working(app):
        await app.submit("q.one", {"n": 1})
        await some_letters(app, "q.one")
        operation = await app.dead_letters.redrive("queue:q.one", to="q.two", canary=1)
        await wait_until(lambda: seen == ["q.one"], 20, "it ran there")

        async def finished() -> bool:
            shown = await app.office.acting(this_account("test")).operations.show(operation.id)
            return shown.operation.state.ended

        await wait_until(finished, 20, "the operation ended")


async def _state(app: Redrive, queue: str) -> tuple[int, int]:
    counts = {one.queue: one for one in await app.store.ledger.queues()}  # type: ignore[attr-defined]
    found = counts.get(queue)
    if found is None:
        return (0, 0)
    return found.pending + found.scheduled + found.processing + found.retry_scheduled, found.published


async def _all_relayed(app: Redrive, count: int) -> bool:
    return await _state(app, "q.one:outbox") == (0, count)


async def _waits_in_ledger(app: Redrive, count: int) -> bool:
    return (await _state(app, "q.one"))[0] == count


@contextmanager
def _held(file: Path) -> Iterator[None]:
    """Another process writes to a database all the while."""
    code = (
        "import sqlite3, sys; held = sqlite3.connect(sys.argv[1], isolation_level=None); "
        "held.execute('BEGIN IMMEDIATE'); print(flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, file], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as writer:
        assert writer.stdin is not None
        assert writer.stdout is not None
        writer.stdout.readline()
        yield
        writer.stdin.close()


async def _is_taken(app: Redrive, broker: RabbitBroker) -> bool:
    """Whether the app has all three, and is about to write some of them down."""
    return await broker.depth("q.one") == 0 and len(app.store.carrier.untaken("q.one")) < 3  # type: ignore[attr-defined]


async def _is_connected(app: Redrive) -> bool:
    with suppress(StoreUnavailable):
        await app.store.carrier.depths(["q.one"])  # type: ignore[attr-defined]
        return True
    return False
