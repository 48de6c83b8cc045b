"""A handler on a broker: what it does, what it raises, and what becomes of the message."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from redrive import Later, Permanent
from redrive.brokers.rabbitmq.properties import Properties
from redrive.core.errors import ConfigurationError
from redrive.core.message import Delivery
from redrive.core.verdict import Reason
from tests.brokers.apps import RabbitBroker, body, letters, some_letters, working
from tests.waiting import wait_until


async def test_a_message_is_handled_and_gone(broker: RabbitBroker) -> None:
    app, seen = broker.make_app(), list[Any]()

    @app.handler("q.one")
    async def handle(payload: dict[str, Any], delivery: Delivery) -> None:
        seen.append((payload, delivery.message.headers["correlation-id"], delivery.progress.attempts))

    async with working(app):
        await wait_until(lambda: _stands(broker, "q.one"), 20, "the queue stands")
        await broker.put("q.one", body(n=1), correlation_id="c-7")
        await wait_until(lambda: len(seen) == 1, 20, "it was handled")
    assert seen == [({"n": 1}, "c-7", 1)]
    assert await broker.depth("q.one") == 0
    assert await broker.depth("q.one.dlq") == 0


@pytest.mark.parametrize("queue", ["q.one", "q.steps"])
async def test_what_fails_is_tried_three_times_and_parked_with_every_failure(
    broker: RabbitBroker, queue: str
) -> None:
    app, tries = broker.make_app(), list[int]()

    @app.handler(queue)
    async def handle(payload: dict[str, Any], delivery: Delivery) -> None:
        tries.append(delivery.progress.attempts)
        raise ValueError(f"try {delivery.progress.attempts}")

    async with working(app):
        await app.submit(queue, {"n": 1}, tenant="acme", headers={"a": "b"})
        (letter,) = await some_letters(app, queue)
        assert tries == [1, 2, 3]
        assert (letter.reason, letter.progress.attempts) == (Reason.EXHAUSTED, 3)
        assert [one.reason for one in letter.failures] == [f"ValueError: try {n}" for n in (1, 2, 3)]
        assert (letter.message.tenant, letter.message.body) == ("acme", b'{"n":1}')
        assert (letter.message.headers["a"], letter.message.headers["routing-key"]) == ("b", queue)
        await wait_until(lambda: _is_empty(broker, f"{queue}.dlq"), 20, "the dead-letter queue is empty")


@pytest.mark.parametrize("queue", ["q.one", "q.steps"])
async def test_a_message_without_an_id_is_the_same_one_at_every_try(broker: RabbitBroker, queue: str) -> None:
    app, ids = broker.make_app(), list[str]()

    @app.handler(queue)
    async def handle(payload: dict[str, Any], delivery: Delivery) -> None:
        ids.append(delivery.message.id)
        raise ValueError(f"try {delivery.progress.attempts}")

    async with working(app):
        await wait_until(lambda: _stands(broker, queue), 20, "the queue stands")
        await broker.write(queue, body(n=1), Properties(delivery_mode=2))
        (letter,) = await some_letters(app, queue)
    assert ids == [letter.message.id] * 3
    assert [one.reason for one in letter.failures] == [f"ValueError: try {n}" for n in (1, 2, 3)]


async def test_a_header_that_is_no_text_does_not_stand_in_the_way(broker: RabbitBroker) -> None:
    app = broker.make_app()

    @app.handler("q.one")
    async def handle(payload: dict[str, Any]) -> None:
        raise Permanent("no")

    async with working(app):
        await wait_until(lambda: _stands(broker, "q.one"), 20, "the queue stands")
        table: dict[str, Any] = {"name": b"\xff\xfe"}
        await broker.write("q.one", body(n=1), Properties(delivery_mode=2, headers=table))
        (letter,) = await some_letters(app, "q.one")
    assert (letter.reason, letter.message.body) == (Reason.PERMANENT, body(n=1))


async def test_a_retry_returns_only_to_the_queue_that_failed(broker: RabbitBroker) -> None:
    topology = """
        [exchanges]
        "domain.events" = "topic"
        [defaults]
        retry_ttl_s = 0.1
        [queues."q.validator"]
        bindings = {"domain.events" = ["files.uploaded.*"]}
        [queues."q.audit"]
        bindings = {"domain.events" = ["#"]}
        [queues."q.projection"]
        bindings = {"domain.events" = ["#"]}
    """
    app, seen = broker.make_app(topology=topology), dict[str, int]()

    def count(queue: str) -> None:
        seen[queue] = seen.get(queue, 0) + 1

    @app.handler("q.validator")
    async def validate(payload: dict[str, Any]) -> None:
        count("q.validator")
        if seen["q.validator"] < 3:
            raise ValueError("not yet")

    @app.handler("q.audit")
    async def audit(payload: dict[str, Any]) -> None:
        count("q.audit")

    @app.handler("q.projection")
    async def project(payload: dict[str, Any]) -> None:
        count("q.projection")

    async with working(app):
        await app.submit("domain.events", {"n": 1}, headers={"routing-key": "files.uploaded.pdf"})
        await wait_until(lambda: seen.get("q.validator") == 3, 20, "validated at the third try")
        await wait_until(lambda: len(seen) == 3, 20, "its neighbours have it")
        await wait_until(lambda: _is_empty(broker, "q.validator"), 20, "all is told")
    assert seen == {"q.validator": 3, "q.audit": 1, "q.projection": 1}


async def test_a_permanent_failure_is_parked_at_once(broker: RabbitBroker) -> None:
    app, tries = broker.make_app(), list[int]()

    @app.handler("q.one")
    async def handle(payload: dict[str, Any]) -> None:
        tries.append(1)
        raise Permanent("no such file", code="404")

    async with working(app):
        await app.submit("q.one", {"n": 1})
        (letter,) = await some_letters(app, "q.one")
    assert (letter.reason, letter.failures[0].code, tries) == (Reason.PERMANENT, "404", [1])


async def test_a_body_that_cannot_be_read_is_parked_with_its_raw_bytes(broker: RabbitBroker) -> None:
    app = broker.make_app()

    @app.handler("q.one")
    async def handle(payload: int) -> None:
        raise AssertionError("nothing of this fits")

    raw = b"\x00\xff not json"
    async with working(app):
        await wait_until(lambda: _stands(broker, "q.one"), 20, "the queue stands")
        await broker.put("q.one", raw, message_type="files.exploded")
        await broker.put("q.one", body(an="object"))
        found = await some_letters(app, "q.one", 2)
    assert {one.reason for one in found} == {Reason.POISON}
    assert {one.message.body for one in found} == {raw, body(an="object")}
    assert {one.message.headers.get("message-type") for one in found} == {"files.exploded", None}


async def test_attempts_are_counted_over_workers(broker: RabbitBroker) -> None:
    tries: list[int] = []

    async def one_try(expected: int) -> None:
        app = broker.make_app()

        @app.handler("q.one")
        async def handle(payload: dict[str, Any], delivery: Delivery) -> None:
            tries.append(delivery.progress.attempts)
            raise ValueError("no")

        async with working(app):
            if expected == 1:
                await app.submit("q.one", {"n": 1})
            await wait_until(lambda: expected in tries, 20, f"try {expected}")
            if expected == 3:
                (letter,) = await some_letters(app, "q.one")
                assert len(letter.failures) == 3

    for expected in (1, 2, 3):
        await one_try(expected)
    assert sorted(set(tries)) == [1, 2, 3]


async def test_what_is_asked_for_later_counts_no_attempt(broker: RabbitBroker) -> None:
    app, tries = broker.make_app(), list[int]()

    @app.handler("q.steps")
    async def handle(payload: dict[str, Any], delivery: Delivery) -> None:
        tries.append(delivery.progress.attempts)
        if len(tries) < 4:
            raise Later(1)

    async with working(app):
        await app.submit("q.steps", {"n": 1})
        await wait_until(lambda: len(tries) == 4, 20, "it ran four times")
        await wait_until(lambda: _is_empty(broker, "q.steps"), 20, "all is told")
        assert await letters(app, "q.steps") == []
    assert tries == [1, 1, 1, 1]


async def test_a_worker_that_stops_gives_back_what_it_has_not_run(broker: RabbitBroker) -> None:
    running, ran = asyncio.Event(), list[tuple[int, int]]()
    first = broker.make_app(worker__drain_s=0)

    @first.handler("q.one", concurrency=1)
    async def wait(payload: dict[str, Any]) -> None:
        running.set()
        await asyncio.sleep(60)

    async with working(first):
        for n in range(5):
            await first.submit("q.one", {"n": n})
        await running.wait()
    second = broker.make_app()

    @second.handler("q.one")
    async def handle(payload: dict[str, Any], delivery: Delivery) -> None:
        ran.append((delivery.progress.attempts, delivery.progress.crashes))

    async with working(second):
        await wait_until(lambda: len(ran) == 5, 20, "the next worker ran all")
    assert ran == [(1, 0)] * 5


async def test_logs_name_correlation_queue_key_type_and_attempts(
    broker: RabbitBroker, caplog: pytest.LogCaptureFixture
) -> None:
    app = broker.make_app()

    @app.handler("q.one")
    async def handle(payload: dict[str, Any]) -> None:
        raise Permanent("no")

    with caplog.at_level(logging.ERROR, "redrive"):
        async with working(app):
            await wait_until(lambda: _stands(broker, "q.one"), 20, "the queue stands")
            await broker.put("q.one", body(n=1), correlation_id="c-1", message_type="file.uploaded")
            await some_letters(app, "q.one")
    fields = next(one.fields for one in caplog.records if getattr(one, "summary", "") == "Job moved to DLQ")
    wanted = {"correlationId": "c-1", "queue": "q.one", "routingKey": "q.one", "messageType": "file.uploaded"}
    assert wanted.items() <= fields.items()
    assert fields["attempts"] == 1


async def test_a_deadline_is_below_what_the_broker_waits_for(broker: RabbitBroker) -> None:
    app = broker.make_app(broker__consumer_timeout_s=60)

    @app.handler("q.one", deadline=60)
    async def handle(payload: dict[str, Any]) -> None: ...

    async with app:
        with pytest.raises(ConfigurationError, match="lower the deadline"):
            await app.run(signals=False)


async def test_a_paused_queue_hands_out_nothing(broker: RabbitBroker) -> None:
    from redrive.core.lanes import LaneState

    app, seen = broker.make_app(), list[Any]()

    @app.handler("q.one")
    async def handle(payload: dict[str, Any]) -> None:
        seen.append(payload)

    async with app:
        await app.store.set_queue("q.one", LaneState.PAUSED)
        async with working(app):
            await app.submit("q.one", {"n": 1})
            await wait_until(lambda: _relayed(app), 20, "the broker has it")
            assert seen == []
            await app.store.set_queue("q.one", LaneState.RUNNING)
            await wait_until(lambda: len(seen) == 1, 20, "it runs after the pause")


async def _stands(broker: RabbitBroker, queue: str) -> bool:
    return await broker.depth(queue) is not None


async def _is_empty(broker: RabbitBroker, queue: str) -> bool:
    return await broker.depth(queue) == 0


async def _relayed(app: Any) -> bool:
    return any(one.queue == "q.one:outbox" and one.published == 1 for one in await app.store.queues())
