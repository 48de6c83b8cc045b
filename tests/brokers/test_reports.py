"""What became of re-driven messages is in the ledger before the broker forgets them, whatever fails."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from redrive import Permanent, Redrive
from redrive.core.letters import LetterKey
from redrive.core.lifecycle import State
from redrive.core.message import Delivery
from tests.brokers.apps import RabbitBroker, body, some_letters, working
from tests.brokers.failing import Unanswered
from tests.waiting import wait_until


@pytest.mark.parametrize(
    ("call", "done"),
    [("take", True), ("settle", False), ("settle", True)],
    ids=["taken", "not settled", "settled"],
)
async def test_a_letter_that_dies_again_is_a_letter_again_although_the_ledger_did_not_answer(
    broker: RabbitBroker, call: str, done: bool
) -> None:
    app = broker.make_app()

    @app.handler("q.one")
    async def handle(payload: dict[str, Any]) -> None:
        raise Permanent("no")

    async with working(app):
        await app.submit("q.one", {"n": 1})
        (letter,) = await some_letters(app, "q.one")
        asks = Unanswered(_ledger(app), call, _is_about("q.one"), done=done)
        await app.dead_letters.redrive("queue:q.one", canary=0)
        await wait_until(lambda: asks.happened, 20, "the ledger did not answer once")
        await wait_until(lambda: _is(app, letter.message.id, State.DEAD, 1), 20, "it is a letter again")
        await wait_until(lambda: _is_empty(broker, "q.one.dlq"), 20, "the broker has forgotten it")


@pytest.mark.parametrize(("fails", "state"), [(True, State.DEAD), (False, State.DONE)], ids=["dead", "done"])
async def test_a_report_that_another_process_left_unfinished_is_told_after_its_lease(
    broker: RabbitBroker, fails: bool, state: State
) -> None:
    """A process dies between taking a message in the ledger and settling it; the broker has it still."""
    app, runs, go_on = broker.make_app(), asyncio.Event(), asyncio.Event()

    @app.handler("q.one")
    async def handle(payload: dict[str, Any], delivery: Delivery) -> None:
        if delivery.progress.generation:
            runs.set()
            await go_on.wait()
        if fails or not delivery.progress.generation:
            raise Permanent("no")

    async with working(app):
        await app.submit("q.one", {"n": 1})
        (letter,) = await some_letters(app, "q.one")
        await app.dead_letters.redrive("queue:q.one", canary=0)
        await runs.wait()
        key = LetterKey(letter.message.id, 1)
        await wait_until(lambda: _is(app, key.id, State.WAITING, 1), 20, "it was marked")
        assert await _ledger(app).take("q.one", [key], "of a lost process", 2.0)
        go_on.set()
        await wait_until(lambda: _is(app, key.id, state, 1), 20, "the ledger knows its end")
        account = await app.store.get(key.id)
        assert account is not None
        assert len(account.failures) == (2 if fails else 1), "no worker was lost with it"


async def test_a_report_that_lapses_in_the_ledger_does_not_touch_what_runs(broker: RabbitBroker) -> None:
    app, runs, go_on = broker.make_app(), list[int](), asyncio.Event()

    @app.handler("q.one", concurrency=50)
    async def handle(payload: dict[str, Any]) -> None:
        runs.append(payload["n"])
        if payload["n"] == 0:
            raise Permanent("no")
        await go_on.wait()

    async with working(app):
        await app.submit("q.one", {"n": 0})
        (letter,) = await some_letters(app, "q.one")
        await _ledger(app).redrive("q.one", [LetterKey(letter.message.id, 0)], actor="x")
        for n in range(1, 21):  # the numbers of these deliveries meet that of the ledger's row
            await app.submit("q.one", {"n": n})
        await wait_until(lambda: len(runs) == 21, 20, "all run")
        assert await _ledger(app).take("q.one", [LetterKey(letter.message.id, 1)], "of a lost process", 0.5)
        await wait_until(lambda: _is(app, letter.message.id, State.WAITING, 1), 20, "its lease lapsed")
        go_on.set()
        await wait_until(lambda: app.store.outstanding == 0, 20, "all are told")  # type: ignore[attr-defined]
    assert sorted(runs) == list(range(21))


async def test_a_letter_that_other_software_has_again_is_done_although_the_ledger_did_not_answer(
    broker: RabbitBroker,
) -> None:
    await broker.declare("orders")
    await broker.declare("orders.failed")
    await broker.put("orders.failed", body(n=1), message_id="m-1")
    app = broker.make_app(broker__collect="orders.failed=orders")
    async with app, app.on_duty():
        (letter,) = await some_letters(app, "orders")
        asks = Unanswered(_ledger(app), "settle", _is_about("orders"))
        await app.dead_letters.redrive("queue:orders")
        await wait_until(lambda: asks.happened, 20, "the ledger did not answer once")
        await wait_until(lambda: _is(app, letter.message.id, State.DONE, 1), 20, "the ledger knows its end")
    assert await broker.depth("orders") == 1


def _is_about(queue: str) -> Any:
    def about(given: Any, *_: object) -> bool:
        return bool(given == queue or given[0].delivery.message.queue == queue)

    return about


def _ledger(app: Redrive) -> Any:
    return app.store.ledger  # type: ignore[attr-defined]


async def _is(app: Redrive, message_id: str, state: State, generation: int) -> bool:
    account = await app.store.get(message_id)
    return account is not None and (account.state, account.progress.generation) == (state, generation)


async def _is_empty(broker: RabbitBroker, queue: str) -> bool:
    return await broker.depth(queue) == 0
