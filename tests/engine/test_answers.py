"""What a handler can answer, and what comes of it: played in virtual time on a real store."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, NoReturn, TypedDict

import msgspec
import pydantic
import pytest

from redrive import Delivery, Later, Permanent, Redrive, RetryPolicy, Temporary, Uncertain
from redrive.core.failure import Kind
from redrive.core.lifecycle import State
from redrive.core.verdict import Reason
from redrive.testing import Clock, dead_letters, run_until_idle

from .conftest import MakeApp


class Order(msgspec.Struct):
    number: int
    note: str = ""


async def test_an_async_handler_gets_the_payload(app: Redrive) -> None:
    seen: list[Any] = []

    @app.handler("orders")
    async def handle(payload: dict[str, Any]) -> None:
        seen.append(payload)

    receipt = await app.submit("orders", {"number": 7})
    assert await run_until_idle(app) == {"done": 1}
    assert seen == [{"number": 7}]
    account = await app.store.get(receipt.id)
    assert account is not None
    assert account.state is State.DONE


async def test_a_def_handler_gets_a_typed_payload_and_its_delivery(app: Redrive) -> None:
    seen: list[tuple[Order, int, str]] = []

    @app.handler("orders")
    def handle(order: Order, delivery: Delivery) -> None:
        seen.append((order, delivery.progress.attempts, delivery.message.tenant))

    await app.submit("orders", Order(7, "blue"), tenant="acme")
    await run_until_idle(app)
    assert seen == [(Order(7, "blue"), 1, "acme")]


async def test_a_dataclass_payload_arrives_as_the_dataclass(app: Redrive) -> None:
    @dataclass
    class Invoice:
        total: float

    seen: list[Invoice] = []

    async def handle(invoice: Any) -> None:
        seen.append(invoice)

    handle.__annotations__["invoice"] = Invoice
    app.handler("invoices")(handle)
    await app.submit("invoices", Invoice(12.5))
    await run_until_idle(app)
    assert seen == [Invoice(12.5)]


async def test_a_temporary_failure_is_retried_until_it_succeeds(app: Redrive) -> None:
    attempts: list[int] = []

    @app.handler("orders")
    async def handle(payload: object, delivery: Delivery) -> None:
        attempts.append(delivery.progress.attempts)
        if len(attempts) < 3:
            raise Temporary("busy", code="421")

    receipt = await app.submit("orders", 1)
    tally = await run_until_idle(app, clock=Clock(app))
    assert tally == {"retried": 2, "done": 1}
    assert attempts == [1, 2, 3]
    account = await app.store.get(receipt.id)
    assert account is not None
    assert [(failure.attempt, failure.code, failure.reason) for failure in account.failures] == [
        (1, "421", "busy"),
        (2, "421", "busy"),
    ]


async def test_an_unknown_error_is_temporary_and_ends_exhausted(app: Redrive) -> None:
    @app.handler("orders")
    async def handle(payload: object) -> None:
        raise KeyError("colour")

    await app.submit("orders", 1)
    assert await run_until_idle(app, clock=Clock(app)) == {"retried": 2, "buried": 1}
    (letter,) = await dead_letters(app)
    assert letter.reason is Reason.EXHAUSTED
    assert [failure.kind for failure in letter.failures] == [Kind.TEMPORARY] * 3
    assert letter.failures[-1].reason == "KeyError: 'colour'"
    assert "raise KeyError" in (letter.failures[-1].traceback or "")
    assert len({failure.fingerprint for failure in letter.failures}) == 1


async def test_a_permanent_failure_is_a_dead_letter_at_once(app: Redrive) -> None:
    @app.handler("orders")
    async def handle(payload: object) -> None:
        raise Permanent("no such customer", code="550")

    await app.submit("orders", 1)
    assert await run_until_idle(app) == {"buried": 1}
    (letter,) = await dead_letters(app)
    assert (letter.reason, letter.failures[0].code) == (Reason.PERMANENT, "550")


async def test_an_uncertain_outcome_is_buried_when_the_policy_says_so(app: Redrive) -> None:
    @app.handler("orders", retry=RetryPolicy(uncertain="bury"))
    async def handle(payload: object) -> None:
        raise Uncertain("connection lost after the final dot")

    await app.submit("orders", 1)
    assert await run_until_idle(app) == {"buried": 1}
    assert (await dead_letters(app))[0].reason is Reason.UNCERTAIN


@pytest.mark.parametrize("absolute", [False, True])
async def test_later_counts_no_attempt_and_waits(app: Redrive, absolute: bool) -> None:
    attempts: list[int] = []
    until = datetime.now(UTC) + timedelta(minutes=5) if absolute else timedelta(minutes=5)

    @app.handler("orders")
    async def handle(payload: object, delivery: Delivery) -> None:
        attempts.append(delivery.progress.attempts)
        if len(attempts) < 6:
            raise Later(until if len(attempts) == 1 else timedelta(minutes=1))

    await app.submit("orders", 1)
    assert await run_until_idle(app) == {"released": 1}
    assert await run_until_idle(app, clock=Clock(app)) == {"released": 4, "done": 1}
    assert attempts == [1] * 6


async def test_retry_after_is_honoured_when_it_is_longer_than_the_backoff(app: Redrive) -> None:
    clock = Clock(app)
    ran_at: list[datetime] = []

    @app.handler("orders")
    async def handle(payload: object) -> None:
        ran_at.append(clock.now)
        if len(ran_at) == 1:
            raise Temporary("slow down", retry_after=timedelta(minutes=10))

    receipt = await app.submit("orders", 1)
    await run_until_idle(app, clock=clock)
    assert ran_at[1] - ran_at[0] >= timedelta(minutes=10)
    account = await app.store.get(receipt.id)
    assert account is not None
    (failure,) = account.failures
    assert (failure.delay_ms or 0) >= 600_000
    assert failure.delay_asked
    assert 0 <= (failure.duration_ms or 0) < 60_000


async def test_a_last_attempt_has_a_duration_and_no_delay_and_one_that_never_ran_has_neither(
    app: Redrive,
) -> None:
    clock = Clock(app)

    @app.handler("orders", retry=RetryPolicy(attempts=2))
    async def handle(payload: object) -> None:
        raise Temporary("no route")

    await app.submit("orders", 1)
    await app.submit("orders", 2, ttl=timedelta(seconds=1), delay=timedelta(hours=1))
    clock.advance(timedelta(hours=2))
    await run_until_idle(app, clock=clock)
    known = {
        letter.reason: [(one.duration_ms is not None, one.delay_ms is not None) for one in letter.failures]
        for letter in await dead_letters(app)
    }
    assert known == {Reason.EXHAUSTED: [(True, True), (True, False)], Reason.EXPIRED: [(False, False)]}


@pytest.mark.parametrize(
    ("body", "says"),
    [({"number": "seven"}, "does not fit"), ([1, 2], "does not fit"), ("text", "does not fit")],
)
async def test_a_payload_that_does_not_fit_is_poison_with_its_bytes(
    app: Redrive, body: object, says: str
) -> None:
    @app.handler("orders")
    async def handle(order: Order) -> None:
        raise AssertionError("never runs")

    await app.submit("orders", body)
    assert await run_until_idle(app) == {"buried": 1}
    (letter,) = await dead_letters(app)
    assert letter.reason is Reason.POISON
    assert says in letter.failures[0].reason
    assert msgspec.json.decode(letter.message.body) == body


def _exit() -> NoReturn:
    sys.exit(3)


def _stop_iteration() -> NoReturn:
    raise StopIteration


async def _cancelled() -> NoReturn:
    raise asyncio.CancelledError


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


def _unspeakable() -> NoReturn:
    raise Unspeakable


@pytest.mark.parametrize("way", [_exit, _stop_iteration, _unspeakable])
async def test_whatever_a_def_handler_raises_is_a_failure_with_a_reason(app: Redrive, way: Any) -> None:
    @app.handler("orders")
    def handle(payload: object) -> None:
        way()

    await app.submit("orders", 1)
    assert await run_until_idle(app, clock=Clock(app)) == {"retried": 2, "buried": 1}
    assert (await dead_letters(app))[0].failures[0].reason.strip()


@pytest.mark.parametrize("way", [_exit, _cancelled, _unspeakable])
async def test_whatever_an_async_handler_raises_is_a_failure_with_a_reason(app: Redrive, way: Any) -> None:
    @app.handler("orders")
    async def handle(payload: object) -> None:
        waiting = way()
        await waiting

    await app.submit("orders", 1)
    assert await run_until_idle(app, clock=Clock(app)) == {"retried": 2, "buried": 1}
    assert (await dead_letters(app))[0].failures[0].reason.strip()


async def test_a_def_handler_that_returns_a_coroutine_is_told_to_be_async(app: Redrive) -> None:
    async def work() -> None: ...

    @app.handler("orders")
    def handle(payload: object) -> Any:
        return work()

    await app.submit("orders", 1)
    await run_until_idle(app, clock=Clock(app))
    assert "declare it async def" in (await dead_letters(app))[0].failures[0].reason


async def test_a_message_past_its_time_to_live_is_not_tried_again(app: Redrive) -> None:
    ran: list[int] = []

    @app.handler("codes")
    async def handle(payload: object) -> None:
        ran.append(1)

    await app.submit("codes", 1, ttl=timedelta(minutes=2))
    Clock(app).advance(timedelta(minutes=3))
    await run_until_idle(app)
    (letter,) = await dead_letters(app)
    assert (letter.reason, ran) == (Reason.EXPIRED, [])
    assert "120 s" in letter.failures[-1].reason


async def test_a_delayed_message_waits_and_keeps_its_whole_time_to_live(app: Redrive) -> None:
    ran: list[datetime] = []
    clock = Clock(app)

    @app.handler("orders")
    async def handle(payload: object) -> None:
        ran.append(clock.now)

    begin = clock.now
    await app.submit("orders", 1, delay=timedelta(days=3))
    assert await run_until_idle(app) == {}
    assert await run_until_idle(app, clock=clock) == {"done": 1}
    assert ran[0] - begin >= timedelta(days=3)


async def test_a_rate_limits_the_queue(make_app: MakeApp) -> None:
    async with make_app() as app:
        ran: list[datetime] = []
        clock = Clock(app)

        @app.handler("orders", rate="10/min")
        async def handle(payload: object) -> None:
            ran.append(clock.now)

        for number in range(25):
            await app.submit("orders", number)
        assert await run_until_idle(app) == {"done": 10}
        assert await run_until_idle(app, clock=clock) == {"done": 15}
        assert ran[10] - ran[0] > timedelta(seconds=59)  # the period begins with the claim
        assert ran[20] - ran[10] > timedelta(seconds=59)


class Basket(pydantic.BaseModel):
    customer: str
    items: list[int]


class Parcel(TypedDict):
    weight: float


async def test_pydantic_models_and_typed_dicts_arrive_as_they_were_sent(app: Redrive) -> None:
    seen: list[object] = []

    @app.handler("baskets")
    async def basket(payload: Basket) -> None:
        seen.append(payload)

    @app.handler("parcels")
    def parcel(payload: Parcel) -> None:
        seen.append(payload)

    await app.submit("baskets", Basket(customer="ana", items=[1, 2]))
    await app.submit("parcels", Parcel(weight=1.5))
    await run_until_idle(app)
    assert seen == [Basket(customer="ana", items=[1, 2]), {"weight": 1.5}]


async def test_a_body_that_a_pydantic_model_refuses_is_poison(app: Redrive) -> None:
    @app.handler("baskets")
    async def basket(payload: Basket) -> None: ...

    await app.submit("baskets", {"customer": "ana", "items": "none"})
    assert await run_until_idle(app) == {"buried": 1}
    (letter,) = await dead_letters(app)
    assert letter.reason is Reason.POISON
    assert "does not fit" in letter.failures[0].reason
