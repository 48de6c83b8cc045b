"""A consumer's window and words: what comes again is known by all of it, no word overtakes another."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from aiormq.abc import ChannelFrame

from redrive.brokers.rabbitmq.connection import BrokerLine
from redrive.brokers.rabbitmq.frames import BEAT
from redrive.core.carrier import Retry
from redrive.core.lanes import LaneState
from tests.brokers.apps import RabbitBroker, body, letters, some_letters, working
from tests.brokers.server import RabbitServer, start_rabbitmq
from tests.faults.proxy import open_proxy
from tests.waiting import wait_until

WAIT_S = 30.0


async def test_another_message_of_the_same_id_is_not_taken_for_one_that_runs(
    rabbitmq: RabbitServer,
    broker_url: str,
    broker: RabbitBroker,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The connection is lost while the first runs; the first goes elsewhere, and the second, which others had
    before, comes here."""
    began, go_on, seen = asyncio.Event(), asyncio.Event(), list[int]()

    async def depth_is(count: int) -> bool:
        return await broker.depth("q.one") == count

    async with open_proxy(rabbitmq.port) as proxy:
        near = RabbitBroker(broker_url.replace(f":{rabbitmq.port}/", f":{proxy.port}/"), tmp_path)
        app = near.make_app()

        @app.handler("q.one")
        async def handle(payload: dict[str, int]) -> None:
            seen.append(payload["n"])
            began.set()
            await go_on.wait()

        async with working(app):
            await app.store.carrier.open()  # type: ignore[attr-defined]
            await broker.put("q.one", body(n=1), message_id="order-7")
            await began.wait()
            back, connect = asyncio.Event(), BrokerLine.connection

            async def later(line: BrokerLine) -> Any:
                await back.wait()
                return await connect(line)

            monkeypatch.setattr(BrokerLine, "connection", later)
            await proxy.cut_now()
            await wait_until(lambda: depth_is(1), WAIT_S, "it is the broker's again")
            assert await broker.take("q.one") is not None
            await broker.put("q.one", body(n=2), message_id="order-7")
            await broker.look("q.one")
            back.set()
            await wait_until(lambda: len(seen) == 2, WAIT_S, "the second one runs too")
            go_on.set()
            await wait_until(lambda: depth_is(0), WAIT_S, "both were told about")
    assert seen == [1, 2]


async def test_an_acknowledgement_of_many_does_not_overtake_a_rejection(broker: RabbitBroker) -> None:
    """The driver's line of words is full for a moment while both are on their way."""
    app = broker.make_app()
    async with app:
        carrier = app.store.carrier  # type: ignore[attr-defined]
        await carrier.open()
        for number in (1, 2):
            await broker.put("q.one", body(n=number))
        parcels: list[Any] = []

        async def some(count: int) -> bool:
            parcels.extend(await carrier.collect("q.one", 5))
            return len(parcels) == count

        await wait_until(lambda: some(2), WAIT_S, "both arrived")
        words = parcels[0].receipt.consumption._channel.connection.write_queue
        while not words.full():
            words.put_nowait(ChannelFrame(BEAT, False, None))
        rejecting = asyncio.create_task(carrier.retry([Retry(parcels[0], 0.0)]))
        await asyncio.sleep(0)
        acknowledging = asyncio.create_task(carrier.acknowledge([parcels[1]]))
        await asyncio.gather(rejecting, acknowledging)
        await wait_until(lambda: some(3), WAIT_S, "the rejected one comes back")
    assert json.loads(parcels[2].message.body) == {"n": 1}


async def test_a_consumer_that_is_renewed_while_its_connection_is_given_up_goes_on(
    broker: RabbitBroker,
) -> None:
    app, seen = broker.make_app(), Counter[int]()

    @app.handler("q.one")
    async def handle(payload: dict[str, int]) -> None:
        seen[payload["n"]] += 1

    async with working(app):
        for number in range(8):
            await app.submit("q.one", {"n": number})
            await wait_until(partial(seen.__getitem__, number), WAIT_S, "it is consumed")
            carrier = app.store.carrier  # type: ignore[attr-defined]
            carrier._consumptions["q.one"].renew()
            for _ in range(number):
                await asyncio.sleep(0)
            carrier._consuming._connection._reader_task.cancel()  # as the driver's heartbeat does


async def test_one_of_two_ledgers_is_refused_also_when_both_start_at_once(
    rabbitmq: RabbitServer, tmp_path: Path
) -> None:
    for number in range(6):
        broker = RabbitBroker(rabbitmq.virtual_host(f"ledgers-{number}"), tmp_path)
        one, other = broker.make_app(ledger=f"one-{number}"), broker.make_app(ledger=f"other-{number}")
        async with one, other:
            answers = await asyncio.gather(
                one.store.check_ledger(),  # type: ignore[attr-defined]
                other.store.check_ledger(),  # type: ignore[attr-defined]
                return_exceptions=True,
            )
        assert sum(answer is None for answer in answers) == 1, answers


async def test_a_retry_queue_that_is_deleted_is_declared_again(
    broker: RabbitBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("redrive.brokers.rabbitmq.carrier._LOOK_S", 0.0)
    app, tries = broker.make_app(), list[int]()

    @app.handler("q.one")
    async def handle(payload: dict[str, int]) -> None:
        tries.append(payload["n"])
        if len(tries) == 1:
            await broker.delete("q.one.retry")
            raise ValueError("not yet")

    async with working(app):
        await app.submit("q.one", {"n": 1})
        await wait_until(lambda: tries == [1, 1], WAIT_S, "it came back")


async def test_looking_at_a_queue_of_others_declares_nothing(broker: RabbitBroker) -> None:
    await broker.declare("orders", x_max_length=7)
    await broker.declare("orders.failed")
    await broker.put("orders.failed", body(n=1))
    app = broker.make_app(broker__collect="orders.failed=orders")
    async with app, app.on_duty():
        await some_letters(app, "orders", 1)
        await app.store.queues()
        await broker.put("orders.failed", body(n=2))
        await some_letters(app, "orders", 2)
        assert await broker.depth("orders.dlq") is None


@pytest.mark.parametrize("paused", [True, False], ids=["paused", "busy"])
async def test_a_backlog_that_cannot_be_worked_on_costs_an_idle_worker_nothing(
    broker: RabbitBroker, paused: bool
) -> None:
    """Fewer looks than a second has milliseconds, while other queues have nothing to do."""
    app, go_on = broker.make_app(), asyncio.Event()

    @app.handler("q.one", concurrency=1)
    async def handle(payload: dict[str, int]) -> None:
        await go_on.wait()

    @app.handler("q.two")
    async def idle(payload: dict[str, int]) -> None: ...

    async with working(app):
        carrier = app.store.carrier  # type: ignore[attr-defined]
        await carrier.open()
        await wait_until(lambda: _is_consumed(carrier, "q.one"), WAIT_S, "the queue is consumed")
        if paused:
            await app.store.set_queue("q.one", LaneState.PAUSED)
        for number in range(10):
            await broker.put("q.one", body(n=number))
        await wait_until(lambda: carrier.untaken("q.one"), WAIT_S, "some wait here")
        waits, wait = 0, carrier.wait

        async def counted(*arguments: Any) -> None:
            nonlocal waits
            waits += 1
            await wait(*arguments)

        carrier.wait = counted
        began_s = time.monotonic()
        await app.submit("q.two", {"n": 1})
        await wait_until(lambda: time.monotonic() > began_s + 1, WAIT_S, "a second has passed")
        assert waits < 50
        go_on.set()


def _is_consumed(carrier: Any, queue: str) -> bool:
    return queue in carrier._consumptions and carrier._consumptions[queue].is_live


@pytest.mark.timeout(120)
async def test_what_only_waits_for_a_slow_handler_is_no_lost_worker(tmp_path: Path) -> None:
    """A broker that waits three seconds for an answer, and 12 messages of half a second each."""
    (data := tmp_path / "broker").mkdir()
    server = await asyncio.to_thread(start_rabbitmq, data, more="consumer_timeout = 3000\n")
    tick = "application:set_env(rabbit, channel_tick_interval, 500)."
    await asyncio.to_thread(server.control, "eval", tick)
    try:
        broker = RabbitBroker(server.url, tmp_path)
        topology = '[queues."q.steps"]\nretry = "backoff"\nsteps_s = [0.1]\ndelivery_limit = 2\n'
        app, seen = broker.make_app(topology=topology, broker__consumer_timeout_s=3), Counter[int]()

        @app.handler("q.steps", concurrency=1, deadline=2)
        async def handle(payload: dict[str, int]) -> None:
            seen[payload["n"]] += 1
            await asyncio.sleep(0.5)

        async with working(app):
            for number in range(12):
                await app.submit("q.steps", {"n": number})
            await wait_until(lambda: len(seen) == 12, 60, "all ran")
            assert not await letters(app, "q.steps")
        await broker.close()
    finally:
        await asyncio.to_thread(server.stop)
