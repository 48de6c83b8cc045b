"""Dead letters of a broker in the office: collected, shown, sent back, and told of."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from redrive import Permanent, Redrive
from redrive.core.errors import StoreError
from redrive.core.letters import DeadLetter, RedriveResult
from redrive.core.lifecycle import State
from redrive.core.message import Delivery
from redrive.core.verdict import Reason
from tests.brokers.apps import RabbitBroker, body, letters, some_letters, working
from tests.waiting import wait_until


def serve(app: Redrive, queue: str, seen: list[Delivery], *, fails_until: int) -> None:
    """A handler that fails until a generation."""

    @app.handler(queue)
    async def handle(payload: dict[str, Any], delivery: Delivery) -> None:
        seen.append(delivery)
        if delivery.progress.generation < fails_until:
            raise Permanent("not now")


@pytest.mark.parametrize("queue", ["q.one", "q.steps"])
async def test_a_letter_is_sent_back_to_its_queue_and_its_end_is_recorded(
    broker: RabbitBroker, queue: str
) -> None:
    app, seen = broker.make_app(), list[Delivery]()
    serve(app, queue, seen, fails_until=1)
    async with working(app):
        await app.submit(queue, {"n": 1}, headers={"a": "b", "correlation-id": "c-1"})
        (letter,) = await some_letters(app, queue)
        operation = await app.dead_letters.redrive(f"queue:{queue}")
        await wait_until(lambda: len(seen) == 2, 20, "it runs again")
        await wait_until(lambda: _is(app, letter.message.id, State.DONE), 20, "the ledger knows its end")
        account = await app.store.get(letter.message.id)
        assert account is not None
        assert [one.result for one in account.redrives] == [RedriveResult.DONE]
        tally = await app.store.tally(operation.id)
        assert (tally.moved, tally.passed, tally.done) == (1, 1, 1)
    again = seen[1]
    headers = again.message.headers
    assert (again.progress.attempts, again.progress.generation) == (1, 1)
    assert (headers["a"], headers["correlation-id"]) == ("b", "c-1")
    assert headers["x-redriven-operation"] == operation.id
    assert headers["x-redriven-count"] == "1"
    assert "@" in headers["x-redriven-by"]
    assert datetime.fromisoformat(headers["x-redriven-at"]).tzinfo == UTC


async def test_a_letter_that_was_sent_back_has_its_full_tries_again(broker: RabbitBroker) -> None:
    app, tries = broker.make_app(), list[tuple[int, int]]()

    @app.handler("q.one")
    async def handle(payload: dict[str, Any], delivery: Delivery) -> None:
        tries.append((delivery.progress.generation, delivery.progress.attempts))
        raise ValueError("no")

    async with working(app):
        await app.submit("q.one", {"n": 1})
        (letter,) = await some_letters(app, "q.one")
        operation = await app.dead_letters.redrive("queue:q.one")
        await wait_until(lambda: _died_again(app, letter), 20, "it died again")
        (again,) = await letters(app, "q.one")
        tally = await app.store.tally(operation.id)
    assert tries == [(0, 1), (0, 2), (0, 3), (1, 1), (1, 2), (1, 3)]
    assert (again.message.id, again.reason) == (letter.message.id, Reason.EXHAUSTED)
    assert len(again.failures) == 6
    assert [one.result for one in again.redrives] == [RedriveResult.DEAD]
    assert (tally.moved, tally.failed, tally.dead) == (1, 1, 1)


async def test_a_letter_of_other_software_is_collected_and_goes_back_where_it_came_from(
    broker: RabbitBroker,
) -> None:
    await broker.declare("orders", x_dead_letter_exchange="", x_dead_letter_routing_key="orders.failed")
    await broker.declare("orders.failed")
    await broker.put("orders", body(n=1), message_id="m-1", headers={"kept": [1, {"two": 2}]})
    await broker.reject("orders")
    app = broker.make_app(broker__collect="orders.failed")
    async with app, app.on_duty():
        (letter,) = await some_letters(app, "orders")
        assert (letter.message.body, letter.reason) == (body(n=1), Reason.PERMANENT)
        assert letter.message.headers["message-id"] == "m-1"
        assert letter.failures[0].reason == "rejected by its consumer"
        await wait_until(lambda: _is_empty(broker, "orders.failed"), 20, "it was taken")
        await app.dead_letters.redrive("queue:orders")
        await wait_until(lambda: _is(app, letter.message.id, State.DONE), 20, "it was handed over")
    taken = await broker.take("orders")
    assert taken is not None
    raw, headers = taken
    assert (raw, headers["kept"], headers["x-redriven-count"]) == (body(n=1), [1, {"two": 2}], 1)
    assert "x-death" not in headers


async def test_equal_letters_of_other_software_are_copies_and_none_is_swallowed(broker: RabbitBroker) -> None:
    await broker.declare("orders.failed")
    for _ in range(3):
        await broker.put("orders.failed", body(n=1), message_id="m-1")
    app = broker.make_app(broker__collect="orders.failed=orders")
    async with app, app.on_duty():
        found = await some_letters(app, "orders", 3)
        await broker.put("orders.failed", body(n=1), message_id="m-1")
        found = await some_letters(app, "orders", 4)
    assert len({one.message.id for one in found}) == 4
    assert sorted(one.message.headers.get("x-copy", "0") for one in found) == ["0", "1", "2", "3"]


async def test_only_queues_that_are_named_are_emptied(broker: RabbitBroker) -> None:
    await broker.declare("orders.failed")
    await broker.declare("others.failed")
    await broker.put("orders.failed", body(n=1))
    await broker.put("others.failed", body(n=1))
    app = broker.make_app(broker__collect="orders.failed=orders")
    async with app, app.on_duty():
        await some_letters(app, "orders")
        await wait_until(lambda: _is_empty(broker, "orders.failed"), 20, "it was taken")
    assert await broker.depth("others.failed") == 1


async def test_a_second_ledger_on_the_same_broker_is_refused(broker: RabbitBroker) -> None:
    first, second = broker.make_app(), broker.make_app(ledger="elsewhere")
    async with first, second:
        await first.store.check_ledger()  # type: ignore[attr-defined]
        with pytest.raises(StoreError, match="another ledger"):
            await second.store.check_ledger()  # type: ignore[attr-defined]


async def test_the_counts_of_the_broker_and_of_the_ledger_stand_side_by_side(broker: RabbitBroker) -> None:
    app, seen = broker.make_app(), list[Delivery]()
    serve(app, "q.one", seen, fails_until=9)
    async with working(app):
        await app.submit("q.one", {"n": 1})
        await some_letters(app, "q.one")
    await broker.put("q.one", body(n=2))
    await broker.put("q.one.dlq", body(n=3))

    async def are_counted() -> bool:
        found = {one.queue: one for one in await app.office.acting(_actor()).queues.parts()}["q.one"]
        return (found.dead, found.broker_waiting, found.broker_dead) == (1, 1, 1)

    async with app:
        await wait_until(are_counted, 20, "one is counted in each place")
        assert await app.office.acting(_actor()).queues.named("q.one.dlq") == "q.one"
        assert await app.office.acting(_actor()).queues.named("q.two.dlq") == "q.two"
    assert await broker.depth("q.one.dlq") == 1, "looking takes nothing"


def _actor() -> Any:
    from redrive.office.audit import this_account

    return this_account("test")


async def _is(app: Redrive, message_id: str, state: State) -> bool:
    account = await app.store.get(message_id)
    return account is not None and account.state is state


async def _died_again(app: Redrive, letter: DeadLetter) -> bool:
    account = await app.store.get(letter.message.id)
    return account is not None and account.state is State.DEAD and account.progress.generation == 1


async def _is_empty(broker: RabbitBroker, queue: str) -> bool:
    return await broker.depth(queue) == 0
