"""The broker dies, its connections are cut, its queues are deleted, its memory ends, its consumers crash.

A ledger on both sides: each number that was submitted ends as handled or as a dead letter, and none is lost.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from redrive import Permanent, Redrive
from redrive.brokers.rabbitmq.declare import FIRST_SECOND_S
from redrive.brokers.rabbitmq.opening import design_of
from redrive.core.message import Delivery
from redrive.core.verdict import Reason
from tests.brokers.apps import RabbitBroker, body, letters, some_letters, working
from tests.brokers.server import RabbitServer, start_rabbitmq
from tests.faults.proxy import Budget, at_random, open_proxy
from tests.waiting import wait_until

WAIT_S = 90.0
KILLER = 20
NEIGHBOURS = set(range(60)) - {KILLER}


class Sides:
    """What was submitted and what was handled. A third is well, a third fails twice, a third dies."""

    def __init__(self, app: Redrive, queue: str) -> None:
        self.app, self.queue = app, queue
        self.submitted: set[int] = set()
        self.handled: dict[int, int] = {}
        self.heals = False

        @app.handler(queue, concurrency=20)
        async def handle(payload: dict[str, Any], delivery: Delivery) -> None:
            number, attempts = payload["n"], delivery.progress.attempts
            if number % 3 == 1 and attempts < 3 and not delivery.progress.generation:
                raise ValueError("not yet")
            if number % 3 == 2 and not self.heals:
                raise Permanent("never")
            self.handled[number] = self.handled.get(number, 0) + 1

    async def submit(self, count: int) -> None:
        for _ in range(count):
            number = len(self.submitted)
            await self.app.submit(self.queue, {"n": number})
            self.submitted.add(number)

    async def dead(self) -> set[int]:
        """The numbers of the dead letters, over all pages."""
        found, cursor = set[int](), None
        while True:
            page = await self.app.store.letters(self.queue, after=cursor)
            found |= {json.loads(one.message.body)["n"] for one in page.letters}
            cursor = page.cursor
            if cursor is None:
                return found

    async def complete(self) -> bool:
        """Whether every number is accounted for."""
        return self.submitted == set(self.handled) | await self.dead()

    async def healed(self) -> bool:
        return self.submitted == set(self.handled) and not await self.dead()


@pytest.fixture(scope="module")
def mortal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RabbitServer]:
    """A broker that may be killed."""
    server = start_rabbitmq(tmp_path_factory.mktemp("mortal"))
    yield server
    server.stop()


@pytest.fixture
def chance() -> random.Random:
    seed = int(os.environ.get("FAULTS_SEED") or random.SystemRandom().randrange(2**32))
    print(f"FAULTS_SEED={seed}")
    return random.Random(seed)  # noqa: S311 - repeats a run


@asynccontextmanager
async def on(url: str, folder: Path) -> AsyncIterator[RabbitBroker]:
    made = RabbitBroker(url, folder)
    yield made
    await made.close()


async def _kill(server: RabbitServer) -> None:
    await asyncio.to_thread(server.kill)
    await asyncio.to_thread(server.start)


@pytest.fixture
def whole_second(monkeypatch: pytest.MonkeyPatch, first_second: None) -> None:
    """Here a broker is killed: the time that new queues need is kept."""
    monkeypatch.setattr("redrive.brokers.rabbitmq.declare.FIRST_SECOND_S", FIRST_SECOND_S)


async def _round(server: RabbitServer, folder: Path, queue: str, kills: int, chance: random.Random) -> None:
    async with on(server.url, folder) as broker:
        sides = Sides(broker.make_app(), queue)
        async with working(sides.app):
            await sides.submit(30)
            await wait_until(sides.complete, WAIT_S, "no queue is in its first second any more")
            for _ in range(kills):
                await asyncio.sleep(chance.uniform(0, 0.3))
                killing = asyncio.create_task(_kill(server))
                await sides.submit(30)
                await killing
            await wait_until(sides.complete, WAIT_S, "every number is handled or dead")
            assert await sides.dead() == {n for n in sides.submitted if n % 3 == 2}
            sides.heals = True
            await sides.app.dead_letters.redrive(f"queue:{queue}", canary=0)
            await asyncio.sleep(chance.uniform(0, 0.2))
            await _kill(server)
            await wait_until(sides.healed, WAIT_S, "every letter was sent back and handled")


@pytest.mark.timeout(300)
@pytest.mark.usefixtures("whole_second")
async def test_a_broker_that_is_killed_at_work_loses_nothing(
    mortal: RabbitServer, tmp_path: Path, chance: random.Random
) -> None:
    await _round(mortal, tmp_path, "q.one", 2, chance)


@pytest.mark.long
@pytest.mark.timeout(1_200)
@pytest.mark.usefixtures("whole_second")
@pytest.mark.parametrize("queue", ["q.one", "q.steps"])
async def test_a_broker_that_is_killed_again_and_again_loses_nothing(
    mortal: RabbitServer, tmp_path: Path, chance: random.Random, queue: str
) -> None:
    for number in range(3):
        folder = tmp_path / str(number)
        folder.mkdir()
        async with on(mortal.url, folder) as broker:
            await broker.delete("redrive.ledger")
        await _round(mortal, folder, queue, 6, chance)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("queue", ["q.one", "q.steps"])
async def test_connections_that_are_cut_at_any_byte_lose_nothing(
    rabbitmq: RabbitServer, broker_url: str, tmp_path: Path, chance: random.Random, queue: str
) -> None:
    async with open_proxy(rabbitmq.port) as proxy:
        url = broker_url.replace(f":{rabbitmq.port}/", f":{proxy.port}/")
        async with on(url, tmp_path) as broker:
            sides = Sides(broker.make_app(), queue)
            async with working(sides.app):
                proxy.cut_all(at_random(chance, 30_000))
                async with asyncio.timeout(WAIT_S):
                    while proxy.cuts < 5:
                        await sides.submit(5)
                        await asyncio.sleep(0.1)
                proxy.cut_all(at_random(chance, 10**9))
                await wait_until(sides.complete, WAIT_S, "every number is handled or dead")
                assert await sides.dead() == {n for n in sides.submitted if n % 3 == 2}
                proxy.cut_all(at_random(chance, 30_000))
                sides.heals = True
                await sides.app.dead_letters.redrive(f"queue:{queue}", canary=0)
                await asyncio.sleep(chance.uniform(0.5, 1.5))
                proxy.cut_all(at_random(chance, 10**9))
                await wait_until(sides.healed, WAIT_S, "every letter was sent back and handled")


@pytest.fixture
def sole_consumer(monkeypatch: pytest.MonkeyPatch) -> None:
    """What comes again comes here, however long that takes: nobody else consumes."""
    monkeypatch.setattr("redrive.brokers.rabbitmq.adrift.COMES_AGAIN_S", WAIT_S)


@pytest.mark.usefixtures("sole_consumer")
async def test_an_attempt_outlives_its_connection_and_is_not_run_twice(
    rabbitmq: RabbitServer, broker_url: str, tmp_path: Path
) -> None:
    began, go_on, runs = asyncio.Event(), asyncio.Event(), list[int]()
    async with (
        open_proxy(rabbitmq.port) as proxy,
        on(broker_url.replace(f":{rabbitmq.port}/", f":{proxy.port}/"), tmp_path) as broker,
    ):
        app = broker.make_app()

        @app.handler("q.one")
        async def handle(payload: dict[str, Any]) -> None:
            runs.append(1)
            began.set()
            await go_on.wait()

        async with working(app):
            await app.submit("q.one", {"n": 1})
            await began.wait()
            channel = app.store.carrier._consumptions["q.one"]._channel  # type: ignore[attr-defined]
            proxy.arm(Budget(request=1, reply=1))
            await wait_until(lambda: proxy.cuts >= 2, WAIT_S, "the connections are cut")
            await wait_until(lambda: channel.is_closed, WAIT_S, "the app has noticed")
            go_on.set()
            await wait_until(lambda: app.store.outstanding == 0, WAIT_S, "its outcome was told")  # type: ignore[attr-defined]
    async with on(broker_url, tmp_path) as broker:
        assert await broker.depth("q.one") == 0
    assert runs == [1]


@pytest.mark.usefixtures("sole_consumer")
@pytest.mark.parametrize(
    ("queue", "failures", "runs"),
    [("q.one", 0, [1]), ("q.one", 1, [1, 2]), ("q.steps", 1, [1, 2]), ("q.steps", 3, [1, 2, 3])],
    ids=["done", "rejected", "published again", "parked"],
)
async def test_an_outcome_that_is_lost_with_its_connection_is_told_again_and_not_run_again(
    rabbitmq: RabbitServer, broker_url: str, tmp_path: Path, queue: str, failures: int, runs: list[int]
) -> None:
    """What came again is in front of what is submitted then."""
    began, go_on, seen, next_ran = asyncio.Event(), asyncio.Event(), list[int](), asyncio.Event()
    async with (
        open_proxy(rabbitmq.port) as proxy,
        on(broker_url.replace(f":{rabbitmq.port}/", f":{proxy.port}/"), tmp_path) as broker,
    ):
        app = broker.make_app()

        @app.handler(queue)
        async def handle(payload: dict[str, Any], delivery: Delivery) -> None:
            if payload["n"] == 2:
                next_ran.set()
                return
            seen.append(attempt := delivery.progress.attempts)
            if attempt == max(failures, 1):
                began.set()
                await go_on.wait()
            if attempt <= failures:
                raise ValueError("not yet")

        async with working(app):
            await app.submit(queue, {"n": 1})
            await began.wait()
            proxy.arm(Budget(request=1))
            go_on.set()
            await wait_until(lambda: proxy.cuts, WAIT_S, "a connection is cut")
            if failures == 3:
                await some_letters(app, queue)
            await wait_until(lambda: len(seen) >= len(runs), WAIT_S, "it ran as often as it should")
            await app.submit(queue, {"n": 2})
            await wait_until(next_ran.is_set, WAIT_S, "the next one ran")
            await wait_until(lambda: app.store.outstanding == 0, WAIT_S, "all outcomes were told")  # type: ignore[attr-defined]
    async with on(broker_url, tmp_path) as broker:
        assert [await broker.depth(name) for name in (queue, f"{queue}.dlq")] == [0, 0]
    assert seen == runs


async def test_queues_and_exchanges_that_are_deleted_are_declared_again(broker: RabbitBroker) -> None:
    app, seen = broker.make_app(), list[Any]()

    @app.handler("q.one")
    async def handle(payload: dict[str, Any]) -> None:
        seen.append(payload["n"])
        if payload["n"] > 1:
            raise Permanent("no")

    async with working(app):
        await app.submit("q.one", {"n": 0})
        await wait_until(lambda: seen == [0], WAIT_S, "it works")
        await broker.delete("q.one")
        await app.submit("q.one", {"n": 1})
        await wait_until(lambda: seen == [0, 1], WAIT_S, "a deleted queue is consumed again")
        await broker.delete("q.one.dlq", exchange="dlq.q.one")
        await app.submit("q.one", {"n": 2})
        assert len(await some_letters(app, "q.one")) == 1


async def test_a_queue_that_others_replace_in_one_breath_is_consumed_again(
    broker: RabbitBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """RabbitMQ 3 may then keep the consumer, and hand it messages that never arrive."""
    monkeypatch.setattr("redrive.brokers.rabbitmq.consume.SILENCE_S", 1.0)
    app, seen = broker.make_app(), set[int]()

    @app.handler("q.one")
    async def handle(payload: dict[str, Any]) -> None:
        seen.add(payload["n"])

    async with working(app):
        for number in range(3):
            await app.submit("q.one", {"n": number})
            await wait_until(partial(seen.__contains__, number), WAIT_S, "a replaced queue is consumed")
            await broker.replace("q.one", design_of(str(broker.given["broker.topology"])))


async def test_a_broker_that_comes_back_without_its_queues_is_worked_on_without_a_restart(
    tmp_path: Path,
) -> None:
    (data := tmp_path / "broker").mkdir()
    server = await asyncio.to_thread(start_rabbitmq, data)
    try:
        async with on(server.url, tmp_path) as broker:
            sides = Sides(broker.make_app(), "q.one")
            async with working(sides.app):
                await sides.submit(3)
                await wait_until(sides.complete, WAIT_S, "it works")
                await asyncio.to_thread(server.lose_everything)
                await sides.submit(3)
                await wait_until(sides.complete, WAIT_S, "what was submitted meanwhile is handled or dead")
                sides.heals = True
                await sides.app.dead_letters.redrive("queue:q.one", canary=0)
                await wait_until(sides.healed, WAIT_S, "every letter was sent back and handled")
    finally:
        await asyncio.to_thread(server.stop)


async def test_a_broker_without_memory_parks_later_and_loses_nothing(
    mortal: RabbitServer, tmp_path: Path
) -> None:
    async with on(mortal.url, tmp_path) as broker:
        await broker.delete("redrive.ledger")
        sides = Sides(broker.make_app(), "q.two")
        async with working(sides.app):
            await sides.submit(30)
            await wait_until(sides.complete, WAIT_S, "every number is handled or dead")
            await asyncio.to_thread(mortal.control, "set_vm_memory_high_watermark", "absolute", "1000")
            await sides.submit(30)
            assert not await sides.complete()
            await asyncio.to_thread(mortal.control, "set_vm_memory_high_watermark", "absolute", "1GB")
            await wait_until(sides.complete, WAIT_S, "every number is handled or dead")


@pytest.mark.timeout(300)
async def test_a_message_that_kills_its_worker_is_parked_and_its_neighbours_are_unharmed(
    broker: RabbitBroker, tmp_path: Path
) -> None:
    app = broker.make_app()
    given, output = json.dumps(broker.given), tmp_path / "handled"
    async with app:
        await app.store.carrier.open()  # type: ignore[attr-defined]
        for number in sorted({KILLER} | NEIGHBOURS):
            await broker.put("q.one", body(n=number, kills=number == KILLER))
        deaths = 0
        while not (worker := await _worker(given, output, app)):
            deaths += 1
            assert deaths <= 5
        worker.terminate()
        await asyncio.to_thread(worker.wait, 30)
        (letter,) = await letters(app, "q.one")
    assert _handled(output) == NEIGHBOURS
    assert (letter.reason, json.loads(letter.message.body)["n"]) == (Reason.WORKER_LOST, KILLER)
    assert deaths == 3


def _start(given: str, output: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-m", "tests.brokers.crashing", given, str(output)])


def _handled(output: Path) -> set[int]:
    return {int(line) for line in output.read_text().split()} if output.exists() else set()


async def _worker(given: str, output: Path, app: Redrive) -> subprocess.Popen[bytes] | None:
    """A worker that has parked the killer and run its neighbours, or None when it died."""
    worker = _start(given, output)

    async def ended() -> bool:
        if worker.poll() is not None:
            return True
        return len(await letters(app, "q.one")) == 1 and len(_handled(output)) == len(NEIGHBOURS)

    try:
        await wait_until(ended, WAIT_S, "the worker died, or the killer is a dead letter and all others ran")
    except BaseException:
        worker.kill()
        raise
    return None if worker.poll() is not None else worker
