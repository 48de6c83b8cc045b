"""Handlers that cancel themselves, or every task they find: a counted failure, and the worker goes on."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from redrive import Redrive, RetryPolicy
from redrive.core.lifecycle import State
from redrive.telemetry.events import Buried, Completed, Released
from redrive.testing import run_until_idle

from .conftest import working

RETRY = RetryPolicy(attempts=2, base_s=0.01, cap_s=0.02)


async def _cancel_itself() -> None:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    await asyncio.sleep(0)


async def _cancel_all() -> None:
    for task in asyncio.all_tasks():
        task.cancel()
    await asyncio.sleep(0)


async def _cancel_all_from_a_child() -> None:
    await asyncio.create_task(_cancel_all())


async def _cancel_all_from_a_callback() -> None:
    loop, done = asyncio.get_running_loop(), asyncio.Event()

    def act() -> None:
        for task in asyncio.all_tasks(loop):
            task.cancel()
        done.set()

    loop.call_soon(act)
    await done.wait()
    await asyncio.sleep(0)


async def _interrupt_a_child() -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(_cancel_itself())
        raise BaseExceptionGroup("several", [GeneratorExit()])


@pytest.mark.parametrize(
    "way",
    [
        _cancel_itself,
        _cancel_all,
        _cancel_all_from_a_child,
        _cancel_all_from_a_callback,
        _interrupt_a_child,
    ],
)
async def test_a_handler_that_cancels_is_counted_and_the_worker_goes_on(
    each_app: Redrive, way: Callable[[], Any]
) -> None:
    begun: Counter[str] = Counter()

    @each_app.handler("bad", retry=RETRY, concurrency=1)
    async def bad(payload: str) -> None:
        begun[payload] += 1
        await way()

    @each_app.handler("good", concurrency=1)
    async def good(payload: str) -> None:
        begun[payload] += 1

    messages = [await each_app.submit("bad", f"bad {number}") for number in range(3)]
    async with working(each_app, survives=True) as events:
        await events.wait_for(Buried, 3)
        await asyncio.gather(*(each_app.submit("good", f"good {number}") for number in range(20)))
        await events.wait_for(Completed, 20)
        assert each_app.ready
    for message in messages:
        account = await each_app.store.get(message.id)
        assert account is not None
        assert (account.state, len(account.failures)) == (State.DEAD, 2)
    assert events.of(Released) == []
    assert {name: count for name, count in begun.items() if name.startswith("bad")} == {
        f"bad {number}": 2 for number in range(3)
    }


async def test_a_thread_runs_on_when_its_attempt_is_cancelled_by_another_handler(each_app: Redrive) -> None:
    begun, let_go = threading.Event(), threading.Event()
    runs: list[int] = []

    @each_app.handler("threads")
    def slow(number: int) -> None:
        runs.append(number)
        begun.set()
        let_go.wait(20)

    @each_app.handler("bad", retry=RETRY)
    async def bad(number: int) -> None:
        await asyncio.to_thread(begun.wait, 20)
        await _cancel_all()

    await each_app.submit("threads", 1)
    await each_app.submit("bad", 1)
    async with working(each_app, survives=True) as events:
        await events.wait_for(Buried)
        let_go.set()
        await events.wait_for(Completed)
    assert runs == [1]


async def test_whoever_runs_the_worker_can_still_cancel_it(each_app: Redrive) -> None:
    @each_app.handler("orders")
    async def handle(number: int) -> None: ...

    task = asyncio.create_task(each_app.run(signals=False))
    await each_app.submit("orders", 1)
    task.cancel()
    async with asyncio.timeout(20):
        with pytest.raises(asyncio.CancelledError):
            await task


async def test_everything_cancelled_from_outside_still_settles_what_runs(each_app: Redrive) -> None:
    """What `asyncio.run` does at its end: the worker drains, and its loops last as long as that takes."""
    begun, finish = asyncio.Event(), asyncio.Event()

    @each_app.handler("orders", deadline=timedelta(seconds=30))
    async def handle(number: int) -> None:
        begun.set()
        await asyncio.shield(finish.wait())

    message = await each_app.submit("orders", 1)
    task = asyncio.create_task(each_app.run(signals=False))
    await begun.wait()
    for each in asyncio.all_tasks() - {asyncio.current_task()}:
        each.cancel()
    finish.set()
    async with asyncio.timeout(20):
        await asyncio.wait([task])
    account = await each_app.store.get(message.id)
    assert account is not None
    assert (account.state, account.progress.attempts) == (State.WAITING, 1)
    assert not [one for one in asyncio.all_tasks() if one.get_name().startswith("redrive-")]


async def test_a_test_that_is_cancelled_gives_the_attempt_back(app: Redrive) -> None:
    @app.handler("orders")
    async def handle(number: int) -> None:
        await asyncio.Event().wait()

    await app.submit("orders", 1)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await run_until_idle(app)


async def test_a_handler_that_cancels_itself_does_not_cancel_the_test(app: Redrive) -> None:
    @app.handler("orders", retry=RetryPolicy(attempts=1))
    async def handle(number: int) -> None:
        await _cancel_itself()

    await app.submit("orders", 1)
    assert await run_until_idle(app) == {"buried": 1}
