"""`@app.on_dead`: runs once for each new dead letter, with retries of its own, whatever crashes."""

from __future__ import annotations

import pytest

from redrive import ConfigurationError, Permanent, Redrive, Temporary
from redrive.core.lanes import LaneState
from redrive.core.letters import DeadLetter, LetterKey
from redrive.core.lifecycle import Move
from redrive.telemetry.events import Completed
from redrive.testing import dead_letters, run_until_idle

from .conftest import MakeApp, working


class Told:
    """An app whose orders all die, and what its handler on dead letters was told."""

    def __init__(self, app: Redrive, failures: int = 0) -> None:
        self.letters: list[DeadLetter] = []
        left = [failures]

        @app.handler("orders")
        async def charge(order: object) -> None:
            raise Permanent("no such card", code="402")

        @app.on_dead("orders")
        async def tell(letter: DeadLetter) -> None:
            if left[0]:
                left[0] -= 1
                raise Temporary("the chat does not answer")
            self.letters.append(letter)

    @property
    def ids(self) -> list[str]:
        return sorted(letter.message.id for letter in self.letters)


async def test_it_runs_once_for_each_new_letter_with_the_letter(each_app: Redrive) -> None:
    told = Told(each_app)
    for _ in range(2):
        receipts = [await each_app.submit("orders", number, tenant="acme") for number in range(3)]
        assert await run_until_idle(each_app) == {"buried": 3, "done": 3}
        assert told.ids == sorted(receipt.id for receipt in receipts)
        assert {letter.failures[-1].code for letter in told.letters} == {"402"}
        told.letters.clear()
    assert await run_until_idle(each_app) == {}


async def test_a_letter_that_dies_again_is_told_again(each_app: Redrive) -> None:
    told = Told(each_app)
    receipt = await each_app.submit("orders", 1)
    await run_until_idle(each_app)
    await each_app.store.redrive("orders", [LetterKey(receipt.id)], actor="ana")
    await run_until_idle(each_app)
    assert [letter.progress.generation for letter in told.letters] == [0, 1]


async def test_it_has_retries_of_its_own_and_a_failure_for_good_is_a_letter_too(make_app: MakeApp) -> None:
    app = make_app()
    told = Told(app, failures=2)
    async with app:
        await app.submit("orders", 1)
        assert await run_until_idle(app) == {"buried": 1, "retried": 1}
        app.skew_ms += 3_600_000
        assert await run_until_idle(app) == {"retried": 1}
        app.skew_ms += 3_600_000
        assert await run_until_idle(app) == {"done": 1}
        assert len(told.letters) == 1
        assert [letter.message.queue for letter in await dead_letters(app)] == ["orders"]


async def test_a_crash_between_telling_and_noting_how_far_is_told_once(
    each_app: Redrive,
) -> None:
    told = Told(each_app)
    (follower,) = each_app.deaths()
    begun = await follower.begin()
    await each_app.submit("orders", 1)
    assert await run_until_idle(each_app) == {"buried": 1, "done": 1}
    record = await each_app.store.get_record(begun.kind, begun.id)
    assert record is not None
    await each_app.store.put_record(begun.kind, begun.id, begun.document, expected=record.version)
    assert await run_until_idle(each_app) == {}
    assert len(told.letters) == 1


async def test_what_is_dead_no_more_when_its_turn_comes_is_passed_over(app: Redrive) -> None:
    told = Told(app)
    receipt = await app.submit("orders", 1)
    await app.store.set_queue("orders:on-dead", LaneState.PAUSED)
    assert await run_until_idle(app) == {"buried": 1}
    await app.store.remove("orders", [LetterKey(receipt.id)], Move.DISCARD, actor="ana")
    await app.store.set_queue("orders:on-dead", LaneState.RUNNING)
    assert await run_until_idle(app) == {"done": 1}
    assert told.letters == []


async def test_what_was_dead_before_is_not_told(app: Redrive) -> None:
    app.handler("orders")(_die)
    await app.submit("orders", "old")
    assert await run_until_idle(app) == {"buried": 1}
    app.skew_ms += 1_000
    letters: list[DeadLetter] = []

    @app.on_dead("orders")
    async def tell(letter: DeadLetter) -> None:
        letters.append(letter)

    assert await run_until_idle(app) == {}
    receipt = await app.submit("orders", "new")
    await run_until_idle(app)
    assert [letter.message.id for letter in letters] == [receipt.id]


async def test_a_worker_tells_of_a_letter_while_it_runs(app: Redrive) -> None:
    told = Told(app)
    async with working(app) as events:
        receipt = await app.submit("orders", 1)
        await events.wait_for(Completed)
    assert told.ids == [receipt.id]


async def _die(order: object) -> None:
    raise Permanent("no such card")


def test_what_does_not_await_is_refused(make_app: MakeApp) -> None:
    with pytest.raises(ConfigurationError, match="async def"):
        make_app().on_dead("orders")(lambda letter: None)  # type: ignore[arg-type, return-value]


def test_a_worker_of_some_queues_serves_their_dead_letters_too(make_app: MakeApp) -> None:
    app = make_app()
    Told(app)
    app.handler("refunds")(_die)
    assert [one.queue for one in app.served(["orders"])] == ["orders", "orders:on-dead"]
