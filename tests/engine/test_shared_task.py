"""What a handler may rely on of its task and context, whether or not it waits for something."""

from __future__ import annotations

import asyncio
import contextvars
import time
from collections.abc import Callable, Coroutine
from datetime import timedelta
from itertools import pairwise
from typing import Any

import anyio
import pytest

from redrive import Redrive, RetryPolicy, Submission
from redrive.core.lifecycle import State
from redrive.telemetry.events import Buried, Completed, LoopFailed, Released

from .conftest import MakeApp, working

ONCE = RetryPolicy(attempts=1)
customer = contextvars.ContextVar("customer", default="nobody")


async def _submit(app: Redrive, payloads: list[Any]) -> list[str]:
    return [one.id for one in await app.submit_many("orders", [Submission(each) for each in payloads])]


async def test_a_context_lasts_through_every_wait_and_reaches_nobody_else(app: Redrive) -> None:
    seen: list[tuple[str, ...]] = []

    async def look() -> str:
        return customer.get()

    @app.handler("orders", concurrency=3)
    async def handle(name: str) -> None:
        before = customer.get()
        customer.set(name)
        if name.startswith("slow"):
            await asyncio.sleep(0.001)
            await asyncio.sleep(0)
        child = await asyncio.create_task(look()) if name.startswith("slow") else customer.get()
        called: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_soon(lambda: called.set_result(customer.get()))
        callback = await called if name.startswith("slow") else name
        seen.append((before, customer.get(), child, callback))

    names = ["slow 1", "quick 1", "quick 2", "slow 2", "slow 3", "quick 3", "slow 4", "quick 4"]
    async with working(app) as events:
        await _submit(app, names)
        await events.wait_for(Completed, len(names))
    assert sorted(seen) == sorted(("nobody", name, name, name) for name in names)


async def _timeout() -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.005):
            await asyncio.Event().wait()


async def _timeout_that_has_passed() -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0):
            await asyncio.sleep(10)


async def _group() -> None:
    async with asyncio.timeout(20), asyncio.TaskGroup() as group:
        group.create_task(asyncio.sleep(0))
        group.create_task(asyncio.sleep(0.002))


async def _group_that_fails() -> None:
    async def fail() -> None:
        raise ValueError("one of them")

    failed = False
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(fail())
            await asyncio.Event().wait()
    except* ValueError:
        failed = True
    assert failed


async def _scope_of_anyio() -> None:
    with anyio.move_on_after(0.005) as scope:
        await anyio.sleep(10)
    assert scope.cancelled_caught


async def _group_of_anyio() -> None:
    async with anyio.create_task_group() as group:
        group.start_soon(anyio.sleep, 0.001)
        group.start_soon(anyio.sleep, 10)
        await anyio.sleep(0.002)
        group.cancel_scope.cancel()


async def _scope_that_waits_for_nothing() -> None:
    with anyio.CancelScope() as scope:  # noqa: ASYNC100 - that it waits for nothing is the case here
        assert not scope.cancel_called


async def _nothing() -> None: ...


WAYS: dict[str, Callable[[], Coroutine[Any, Any, None]]] = {
    way.__name__: way
    for way in (
        _timeout,
        _timeout_that_has_passed,
        _group,
        _group_that_fails,
        _scope_of_anyio,
        _group_of_anyio,
        _scope_that_waits_for_nothing,
        _nothing,
    )
}


@pytest.mark.parametrize("concurrency", [1, 3])
async def test_timeouts_and_groups_work_between_attempts_that_do_not_wait(
    app: Redrive, concurrency: int
) -> None:
    ended: list[str] = []

    @app.handler("orders", concurrency=concurrency, retry=ONCE)
    async def handle(way: str) -> None:
        task = asyncio.current_task()
        assert task is not None
        assert task.cancelling() == 0
        await WAYS[way]()
        assert asyncio.current_task() is task
        assert task.cancelling() == 0
        ended.append(way)

    wanted = [way for first in WAYS for way in (first, "_nothing")]
    async with working(app) as events:
        await _submit(app, wanted)
        await events.wait_for(Completed, len(wanted))
    assert sorted(ended) == sorted(wanted)


async def test_two_attempts_at_once_never_have_the_same_task(app: Redrive) -> None:
    together: set[asyncio.Task[Any] | None] = set()
    most = 0

    @app.handler("orders", concurrency=4)
    async def handle(number: int) -> None:
        nonlocal most
        task = asyncio.current_task()
        assert task not in together
        together.add(task)
        most = max(most, len(together))
        if number % 3:
            await asyncio.sleep(0)
        together.discard(task)

    async with working(app) as events:
        await _submit(app, list(range(90)))
        await events.wait_for(Completed, 90)
    assert 1 < most <= 4


async def _cancel() -> None:
    _own().cancel()


async def _cancel_and_take_it_back() -> None:
    _own().cancel()
    _own().uncancel()


async def _name() -> None:
    _own().set_name("mine")


def _own() -> asyncio.Task[Any]:
    task = asyncio.current_task()
    assert task is not None
    return task


@pytest.mark.parametrize("act", [_cancel, _cancel_and_take_it_back, _name])
@pytest.mark.parametrize("waits", [False, True])
async def test_what_a_handler_does_to_its_task_reaches_no_other_attempt(
    app: Redrive, act: Callable[[], Coroutine[Any, Any, None]], waits: bool
) -> None:
    @app.handler("orders", concurrency=1, retry=ONCE)
    async def handle(acts: bool) -> None:
        assert _own().cancelling() == 0
        assert _own().get_name() != "mine"
        if acts:
            await act()
        elif waits:
            await asyncio.sleep(0)

    async with working(app) as events:
        await _submit(app, [False, True, False, True, True, False])
        await events.wait_for(Completed, 6)
    assert not events.of(Released)
    assert not events.of(LoopFailed)


async def test_a_callback_of_a_handlers_task_is_called_when_its_attempt_ends(app: Redrive) -> None:
    called, go_on = asyncio.Event(), asyncio.Event()

    @app.handler("orders", concurrency=1)
    async def handle(first: bool) -> None:
        if first:
            _own().add_done_callback(lambda _: called.set())
        else:
            await go_on.wait()

    async with working(app) as events:
        await _submit(app, [True, False])
        async with asyncio.timeout(20):
            await called.wait()
        go_on.set()
        await events.wait_for(Completed, 2)


async def test_a_deadline_counts_from_the_beginning_and_ends_only_what_passed_it(app: Redrive) -> None:
    @app.handler("orders", concurrency=2, deadline=timedelta(milliseconds=60), retry=ONCE)
    async def handle(kind: str) -> None:
        if kind == "blocks":
            time.sleep(0.08)  # noqa: ASYNC251 - a handler that blocks the loop is what is tested
        if kind != "quick":
            await asyncio.sleep(0.04 if kind == "blocks" else 30)

    async with working(app) as events:
        ids = await _submit(app, ["quick", "waits", "quick", "blocks", "quick"])
        await events.wait_for(Completed, 3)
        dead = await events.wait_for(Buried, 2)
    assert {event.delivery.message.id for event in dead} == {ids[1], ids[3]}
    assert {event.failure.code for event in dead} == {"deadline"}


async def test_the_loop_goes_on_between_handlers_that_block_it(app: Redrive) -> None:
    rounds: list[int] = []
    ran = 0

    @app.handler("orders", concurrency=5)
    async def handle(number: int) -> None:
        nonlocal ran
        ran += 1
        ends_s = time.perf_counter() + 0.003
        while time.perf_counter() < ends_s:
            pass

    async def count_rounds() -> None:
        while True:
            rounds.append(ran)
            await asyncio.sleep(0)

    counting = asyncio.create_task(count_rounds())
    async with working(app) as events:
        await _submit(app, list(range(30)))
        await events.wait_for(Completed, 30)
    counting.cancel()
    assert max(later - sooner for sooner, later in pairwise(rounds)) <= 2


@pytest.mark.parametrize(
    "error", [ValueError, SystemExit, KeyboardInterrupt, asyncio.CancelledError, GeneratorExit]
)
async def test_whatever_is_raised_before_the_first_wait_counts_for_its_message_alone(
    app: Redrive, error: type[BaseException]
) -> None:
    @app.handler("orders", concurrency=1, retry=ONCE)
    async def handle(fails: bool) -> None:
        if fails:
            raise error

    async with working(app, survives=True) as events:
        ids = await _submit(app, [False, True, False, True, False])
        await events.wait_for(Completed, 3)
        dead = await events.wait_for(Buried, 2)
    assert {event.delivery.message.id for event in dead} == {ids[1], ids[3]}


async def test_an_attempt_that_waits_is_given_back_when_the_drain_is_over(make_app: MakeApp) -> None:
    """Behind attempts that did not wait, in the task that those had before it."""
    async with make_app(**{"worker.drain_s": 0.05}) as app:
        begun = asyncio.Event()

        @app.handler("orders", concurrency=2)
        async def handle(waits: bool) -> None:
            if waits:
                begun.set()
                await asyncio.Event().wait()

        ids = await _submit(app, [False, False, True])
        async with working(app) as events:
            await begun.wait()
        assert (len(events.of(Completed)), len(events.of(Released))) == (2, 1)
        account = await app.store.get(ids[2])
        assert account is not None
        assert (account.state, account.progress.attempts) == (State.WAITING, 0)
