"""Messages that a broker will never take: each ends where an operator sees it, its neighbours pass."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Any

import pytest

from redrive import Permanent, Redrive, Submission
from redrive.core.carrier import PublishingInterrupted
from redrive.core.letters import OperationTally
from redrive.core.message import Delivery, Message
from redrive.core.verdict import Reason
from redrive.office.audit import this_account
from tests.brokers.apps import RabbitBroker, letters, some_letters, working
from tests.brokers.server import RabbitServer, start_rabbitmq
from tests.waiting import wait_until

LIMIT = 100_000
TOO_LARGE = "y" * (2 * LIMIT)


@pytest.fixture(scope="module")
def narrow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RabbitServer]:
    """A broker that takes no large message."""
    server = start_rabbitmq(tmp_path_factory.mktemp("narrow"), management=True)
    yield server
    server.stop()


@pytest.fixture
async def narrow_broker(narrow: RabbitServer, tmp_path: Path) -> AsyncIterator[RabbitBroker]:
    made = RabbitBroker(narrow.virtual_host(tmp_path.name), tmp_path)
    await _limit(narrow, LIMIT)
    yield made
    await made.close()


async def _limit(server: RabbitServer, size: int) -> None:
    """How large a message may be; it holds for channels that are opened from then on."""
    for kept in (
        f"persistent_term:put(max_message_size, {size}).",
        f"application:set_env(rabbit, max_message_size, {size}).",
    ):
        await asyncio.to_thread(server.control, "eval", kept)
    await asyncio.to_thread(server.control, "close_all_connections", "--global", "a new limit")


async def test_one_message_that_is_too_large_is_a_letter_and_its_neighbours_pass(
    narrow: RabbitServer, narrow_broker: RabbitBroker, caplog: pytest.LogCaptureFixture
) -> None:
    app, seen = narrow_broker.make_app(), Counter[Any]()

    @app.handler("q.one")
    async def handle(payload: dict[str, Any]) -> None:
        seen[payload["n"]] += 1

    async with app:
        for n in range(3):
            await app.submit("q.one", {"n": n})
        await app.submit("q.one", {"n": "large", "x": TOO_LARGE})
        for n in range(3, 6):
            await app.submit("q.one", {"n": n})
        async with working(app):
            (letter,) = await some_letters(app, "q.one:outbox")
            await wait_until(lambda: set(seen) == set(range(6)), 20, "its neighbours ran")
            assert letter.reason is Reason.PERMANENT
            assert "larger than" in letter.failures[-1].reason
            assert "larger than" in caplog.text
            assert max(seen.values()) <= 2
            await _limit(narrow, 100 * LIMIT)
            await app.dead_letters.redrive("queue:q.one:outbox")
            await wait_until(lambda: seen["large"] == 1, 20, "the broker takes it by now")


async def test_a_letter_that_is_too_large_stays_one_and_the_others_are_sent_back(
    narrow: RabbitServer, narrow_broker: RabbitBroker, caplog: pytest.LogCaptureFixture
) -> None:
    app, seen = narrow_broker.make_app(), Counter[Any]()
    await _limit(narrow, 100 * LIMIT)

    @app.handler("q.one")
    async def handle(payload: dict[str, Any], delivery: Delivery) -> None:
        if not delivery.progress.generation:
            raise Permanent("not now")
        seen[payload["n"]] += 1

    async with working(app):
        for n in range(2):
            await app.submit("q.one", {"n": n})
        await app.submit("q.one", {"n": "large", "x": TOO_LARGE})
        await app.submit("q.one", {"n": 2})
        await some_letters(app, "q.one", 4)
        await _limit(narrow, LIMIT)
        operation = await app.dead_letters.redrive("queue:q.one", canary=0)
        tally = await _finished(app, operation.id)
        await wait_until(lambda: set(seen) == {0, 1, 2}, 20, "the others ran again")
        (left,) = await letters(app, "q.one")
    assert tally.moved == 3
    assert max(seen.values()) <= 2, "what it refuses takes the answers about others with it"
    assert "larger than" in caplog.text
    assert left.message.id in caplog.text


async def test_an_exchange_that_is_deleted_under_a_large_backlog_loses_nothing(broker: RabbitBroker) -> None:
    """What was not even written when the channel closed is not taken for confirmed."""
    topology = '[exchanges]\n"events" = "topic"\n[queues."q.one"]\nbindings = {"events" = ["a.*"]}\n'
    app, seen = broker.make_app(topology=topology), set[int]()

    @app.handler("q.one", concurrency=50)
    async def handle(payload: dict[str, Any]) -> None:
        seen.add(payload["n"])

    async with working(app):
        await app.submit("events", {"n": -1}, headers={"routing-key": "a.b"})
        await wait_until(lambda: seen == {-1}, 20, "it works")
        await broker.delete(exchange="events")
        await app.submit_many(
            "events",
            [Submission({"n": n, "x": "y" * 20_000}, headers={"routing-key": "a.b"}) for n in range(300)],
        )
        await wait_until(lambda: len(seen) == 301, 40, "all ran")


async def test_what_was_confirmed_before_a_connection_was_lost_is_not_relayed_again(
    broker: RabbitBroker,
) -> None:
    app, seen, lost = broker.make_app(), Counter[int](), list[int]()

    @app.handler("q.one")
    async def handle(payload: dict[str, Any]) -> None:
        seen[payload["n"]] += 1

    async with app:
        carrier: Any = app.store.carrier  # type: ignore[attr-defined]
        publish = carrier.publish

        async def publish_two(messages: Sequence[Message]) -> AbstractSet[str]:
            if lost:
                return await publish(messages)  # type: ignore[no-any-return]
            lost.append(len(messages))
            await publish(messages[:2])
            raise PublishingInterrupted("the connection was lost", {0, 1})

        carrier.publish = publish_two
        for n in range(5):
            await app.submit("q.one", {"n": n})
        async with working(app):
            await wait_until(lambda: len(seen) == 5, 20, "all ran")
    assert (lost, seen) == ([5], Counter(range(5)))


async def _finished(app: Redrive, operation: str) -> OperationTally:
    async def ended() -> bool:
        shown = await app.office.acting(this_account("test")).operations.show(operation)
        return shown.operation.state.ended

    await wait_until(ended, 20, "the operation ended")
    return await app.store.tally(operation)
