"""The running worker: concurrency, isolation, drain, deadlines, suspects, announcements."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from datetime import timedelta
from pathlib import Path

import apsw
import pytest

from redrive import Delivery, Redrive, Submission
from redrive.core.errors import ConfigurationError
from redrive.core.failure import Failure, Kind
from redrive.core.lifecycle import State
from redrive.core.ports import Claim
from redrive.core.verdict import Release, Settlement
from redrive.office.audit import Actor
from redrive.telemetry.events import Completed, HandlerOverran, Released, RetryScheduled
from tests.waiting import wait_until

from .conftest import Events, MakeApp, working


async def _state(app: Redrive, message_id: str) -> State:
    account = await app.store.get(message_id)
    assert account is not None
    return account.state


async def test_everything_submitted_is_done_once(app: Redrive) -> None:
    seen: list[int] = []

    @app.handler("orders")
    async def handle(number: int) -> None:
        seen.append(number)

    async with working(app) as events:
        await asyncio.gather(
            *(app.submit("orders", number, tenant=f"t{number % 7}") for number in range(300))
        )
        await events.wait_for(Completed, 300)
    assert sorted(seen) == list(range(300))
    (counts,) = await app.store.queues()
    assert (counts.published, counts.pending, counts.processing) == (300, 0, 0)


async def test_a_queue_never_runs_more_than_its_concurrency(app: Redrive) -> None:
    running, most = 0, 0

    @app.handler("orders", concurrency=3)
    async def handle(number: int) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1

    async with working(app) as events:
        await asyncio.gather(*(app.submit("orders", number) for number in range(60)))
        await events.wait_for(Completed, 60)
    assert most == 3


async def test_the_process_bounds_all_queues_together(make_app: MakeApp) -> None:
    async with make_app(**{"worker.concurrency": 4}) as app:
        running, most = 0, 0

        async def handle(number: int) -> None:
            nonlocal running, most
            running += 1
            most = max(most, running)
            await asyncio.sleep(0)
            running -= 1

        for queue in ("a", "b", "c"):
            app.handler(queue)(handle)
        async with working(app) as events:
            await asyncio.gather(*(app.submit(queue, n) for queue in "abc" for n in range(30)))
            await events.wait_for(Completed, 90)
    assert most == 4


async def test_def_handlers_run_in_threads_side_by_side(app: Redrive) -> None:
    together = threading.Barrier(5, timeout=20)

    @app.handler("orders", concurrency=5)
    def handle(number: int) -> None:
        together.wait()

    async with working(app) as events:
        await asyncio.gather(*(app.submit("orders", number) for number in range(5)))
        await events.wait_for(Completed, 5)


async def test_context_of_one_message_never_reaches_the_next(app: Redrive) -> None:
    customer = contextvars.ContextVar("customer", default="nobody")
    seen: list[str] = []

    @app.handler("orders", concurrency=1)
    async def handle(name: str) -> None:
        seen.append(customer.get())
        customer.set(name)

    async with working(app) as events:
        for name in ("ana", "bo", "cy"):
            await app.submit("orders", name)
        await events.wait_for(Completed, 3)
    assert seen == ["nobody"] * 3


async def test_a_handler_past_its_deadline_is_cancelled_and_retried(app: Redrive) -> None:
    cancelled = asyncio.Event()

    @app.handler("orders", deadline=timedelta(milliseconds=30))
    async def handle(payload: object) -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise

    async with working(app) as events:
        await app.submit("orders", 1)
        (retry,) = (await events.wait_for(RetryScheduled))[:1]
    assert cancelled.is_set()
    assert isinstance(retry, RetryScheduled)
    assert (retry.failure.code, retry.failure.kind) == ("deadline", Kind.TEMPORARY)


async def test_a_def_handler_past_its_deadline_keeps_its_slot_and_its_result_stands(app: Redrive) -> None:
    let_go = threading.Event()
    runs: list[int] = []

    @app.handler("orders", deadline=timedelta(milliseconds=30), concurrency=1)
    def handle(number: int) -> None:
        runs.append(number)
        let_go.wait(20)

    async with working(app) as events:
        first = await app.submit("orders", 1)
        await events.wait_for(HandlerOverran)
        await app.submit("orders", 2)
        assert await _state(app, first.id) is State.CLAIMED
        await wait_until(lambda: bool(runs), 20, "its thread has begun")
        assert runs == [1]
        let_go.set()
        await events.wait_for(Completed, 2)
    assert runs == [1, 2]


async def test_stopping_lets_running_attempts_finish_and_gives_the_rest_back(app: Redrive) -> None:
    begun, finish = asyncio.Event(), asyncio.Event()
    done: list[int] = []

    @app.handler("orders", concurrency=1)
    async def handle(number: int) -> None:
        begun.set()
        await finish.wait()
        done.append(number)

    async def finish_when_no_more_begin() -> None:
        await wait_until(lambda: _begins_no_more(app), 20, "the worker stops")
        finish.set()

    receipts = [await app.submit("orders", number) for number in range(3)]
    async with working(app):
        await begun.wait()
        finishing = asyncio.create_task(finish_when_no_more_begin())
    await finishing
    assert done == [0]
    accounts = [await app.store.get(receipt.id) for receipt in receipts]
    states = [(account.state, account.progress.attempts) for account in accounts if account]
    assert states == [(State.DONE, 1), (State.WAITING, 0), (State.WAITING, 0)]


async def test_an_attempt_that_outlasts_the_drain_is_given_back_uncounted(make_app: MakeApp) -> None:
    async with make_app(**{"worker.drain_s": 0.05}) as app:
        begun = asyncio.Event()

        @app.handler("orders")
        async def handle(number: int) -> None:
            begun.set()
            await asyncio.Event().wait()

        receipt = await app.submit("orders", 1)
        async with working(app) as events:
            await begun.wait()
        assert len(events.of(Released)) == 1
        account = await app.store.get(receipt.id)
        assert account is not None
        assert (account.state, account.progress.attempts, account.failures) == (State.WAITING, 0, ())


async def test_a_suspect_runs_alone(app: Redrive) -> None:
    receipts = [await app.submit("orders", number) for number in range(3)]
    claimed = await app.store.claim(Claim("orders", "dead-worker", 3, 30.0))
    now = app.store.now()
    lost = Failure(now, 1, Kind.LOST, "its worker was lost")
    await app.store.settle([Settlement(delivery, Release(now, lost)) for delivery in claimed.deliveries])
    running: set[int] = set()
    company: list[int] = []

    @app.handler("orders", concurrency=5)
    async def handle(number: int, delivery: Delivery) -> None:
        running.add(number)
        if delivery.progress.crashes:
            company.append(len(running))
        await asyncio.sleep(0)
        running.discard(number)

    async with working(app) as events:
        await asyncio.gather(*(app.submit("orders", 100 + number) for number in range(50)))
        await events.wait_for(Completed, 53)
    assert company == [1, 1, 1]
    assert [await _state(app, receipt.id) for receipt in receipts] == [State.DONE] * 3


async def test_an_unserved_queue_waits_and_says_no_handler(app: Redrive) -> None:
    @app.handler("orders")
    async def handle(payload: object) -> None: ...

    office = app.office.acting(Actor("test", "test")).queues
    async with working(app) as events:
        await app.submit("invoices", 1)
        await app.submit("orders", 1)
        await events.wait_for(Completed)
        status = {one.counts.queue: one for one in await office.every()}
    assert status["invoices"].no_handler
    assert status["invoices"].counts.pending == 1
    assert status["orders"].workers == 1
    assert not status["orders"].no_handler


async def test_a_stopped_worker_is_no_longer_announced(app: Redrive) -> None:
    @app.handler("orders")
    async def handle(payload: object) -> None: ...

    async with working(app) as events:
        await app.submit("orders", 1)
        await events.wait_for(Completed)
    assert [one.workers for one in await app.office.acting(Actor("test", "test")).queues.every()] == [0]


async def test_a_paused_queue_hands_out_nothing_until_it_is_resumed(app: Redrive) -> None:
    office = app.office.acting(Actor("ana@host", "test")).queues

    @app.handler("orders")
    async def handle(payload: object) -> None: ...

    @app.handler("other")
    async def other(payload: object) -> None: ...

    receipt = await app.submit("orders", 1)
    await office.pause("orders")
    async with working(app) as events:
        await app.submit("other", 1)
        await events.wait_for(Completed)
        assert await _state(app, receipt.id) is State.WAITING
        await office.resume("orders")
        await events.wait_for(Completed, 2)
    assert await _state(app, receipt.id) is State.DONE


async def test_an_app_without_handlers_says_what_to_do(app: Redrive) -> None:
    with pytest.raises(ConfigurationError, match=r"@app\.handler"):
        await app.run(signals=False)


def test_two_handlers_for_one_queue_are_refused(make_app: MakeApp) -> None:
    app = make_app()

    @app.handler("orders")
    async def handle(payload: object) -> None: ...

    with pytest.raises(ConfigurationError, match="already has a handler"):
        app.handler("orders")(handle)


@pytest.mark.parametrize("function", [lambda: None, lambda a, b, c: None])
def test_a_handler_with_the_wrong_parameters_is_refused(make_app: MakeApp, function: object) -> None:
    with pytest.raises(ConfigurationError, match="parameters"):
        make_app().handler("orders")(function)  # type: ignore[type-var]


async def test_a_suspect_runs_alone_beside_a_busy_queue_too(app: Redrive) -> None:
    await app.submit("orders", "suspect")
    claimed = await app.store.claim(Claim("orders", "dead-worker", 1, 30.0))
    now = app.store.now()
    lost = Failure(now, 1, Kind.LOST, "its worker was lost")
    await app.store.settle([Settlement(delivery, Release(now, lost)) for delivery in claimed.deliveries])
    running = 0
    company: list[int] = []

    async def handle(payload: str) -> None:
        nonlocal running
        running += 1
        for _ in range(5):
            if payload == "suspect":
                company.append(running)
            await asyncio.sleep(0)
        running -= 1

    app.handler("orders")(handle)
    app.handler("busy", concurrency=2)(handle)
    async with working(app) as events:
        await asyncio.gather(*(app.submit("busy", "work") for _ in range(200)))
        await events.wait_for(Completed, 201)
    assert set(company) == {1}


async def test_each_attempt_has_a_deadline_of_its_own(app: Redrive) -> None:
    ended: list[str] = []

    @app.handler("orders", deadline=timedelta(milliseconds=600), concurrency=3)
    async def handle(payload: str) -> None:
        try:
            await asyncio.sleep(0 if payload == "quick" else 30)
        except asyncio.CancelledError:
            ended.append(payload)
            if payload == "stubborn":
                return
            raise

    async with working(app) as events:
        for payload in ("quick", "hanging", "stubborn"):
            await app.submit("orders", payload)
        await events.wait_for(Completed, 2)
        (retry,) = (await events.wait_for(RetryScheduled))[:1]
    assert isinstance(retry, RetryScheduled)
    assert retry.failure.code == "deadline"
    assert set(ended) == {"hanging", "stubborn"}


async def test_queues_take_turns_at_the_only_slot(make_app: MakeApp) -> None:
    async with make_app(**{"worker.concurrency": 1}) as app:
        ran: list[str] = []

        async def handle(queue: str) -> None:
            ran.append(queue)
            await asyncio.sleep(0)

        for queue in ("a", "b"):
            app.handler(queue)(handle)
            await app.submit_many(queue, [Submission(queue) for _ in range(40)])
        async with working(app) as events:
            await events.wait_for(Completed, 80)
    assert ran[:40].count("b") > 10


async def test_what_a_claim_brings_while_the_worker_stops_goes_back_at_once(
    app: Redrive, tmp_path: Path
) -> None:
    ran: list[int] = []

    @app.handler("orders")
    async def handle(number: int) -> None:
        ran.append(number)

    receipts = [await app.submit("orders", number) for number in range(3)]
    another_program = apsw.Connection(str(tmp_path / "redrive.db"))
    another_program.execute("begin immediate")
    events = Events(app)
    work = asyncio.create_task(app.run(signals=False))
    await wait_until(lambda: _claims_under_way(app) == 1, 20, "a claim is under way")
    work.cancel()
    await wait_until(lambda: _begins_no_more(app), 20, "the worker stops")
    another_program.execute("rollback")
    await asyncio.wait([work])
    another_program.close()
    assert ran == []
    assert len(events.of(Released)) == 3
    for receipt in receipts:
        account = await app.store.get(receipt.id)
        assert account is not None
        assert (account.state, account.progress.attempts) == (State.WAITING, 0)
        assert account.progress.due_at <= app.store.now()


def _claims_under_way(app: Redrive) -> int:
    worker = app._work._worker
    return worker._slots.held if worker is not None else 0


def _begins_no_more(app: Redrive) -> bool:
    """Whether the running worker was told to stop, and every station of it knows."""
    worker = app._work._worker
    return worker is not None and all(station._stopping for station in worker._stations)
