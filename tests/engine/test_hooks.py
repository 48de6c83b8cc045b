"""Hooks: a team's own code hears of what happens, after it is durable, and never stands in the way."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any, get_args

import pytest

from redrive import ConfigurationError, Permanent, Redrive, RetryPolicy, Submission, Temporary
from redrive.core.lifecycle import State
from redrive.engine import hooks as engine_hooks
from redrive.engine import totals as engine_totals
from redrive.office.metrics import scrape
from redrive.telemetry.events import (
    BatchAccepted,
    Buried,
    Completed,
    Event,
    HookDropped,
    HookFailed,
    RetryScheduled,
    WorkerStarted,
)
from redrive.telemetry.hooks import HOOKS, INTERNAL
from redrive.testing import trial
from tests.engine.conftest import Events, MakeApp, working
from tests.waiting import wait_until


def test_every_event_has_a_hook_or_is_internal() -> None:
    hooked = list(HOOKS.values())
    assert len(hooked) == len(set(hooked))
    assert {*hooked, *INTERNAL} == set(get_args(Event))
    assert not INTERNAL & set(hooked)


async def test_each_death_retry_and_completion_is_heard_of_once_after_it_is_durable(
    each_app: Redrive,
) -> None:
    app, heard = each_app, list[tuple[str, str]]()
    states: list[State] = []

    @app.handler("orders", retry=RetryPolicy(attempts=3, base_s=600.0, cap_s=600.0))
    async def handle(payload: str) -> None:
        if payload == "bad":
            raise Permanent("no such account")
        if payload == "late":
            raise Temporary("busy")

    @app.on("dead")
    async def died(event: Buried) -> None:
        found = await app.store.get(event.delivery.message.id)
        assert found is not None
        states.append(found.state)
        heard.append(("dead", event.failure.reason))

    @app.on("done")
    def done(event: Completed) -> None:
        heard.append(("done", event.delivery.message.tenant))

    @app.on("retry")
    async def retried(event: RetryScheduled) -> None:
        heard.append(("retry", f"{event.max_attempts}"))

    async with working(app) as events:
        for payload in ("good", "bad", "bad", "late"):
            await app.submit("orders", payload, tenant="acme")
        await events.wait_for(Buried, 2)
        await events.wait_for(RetryScheduled)
        await events.wait_for(Completed)
        await app.hooks_idle()
    assert states == [State.DEAD, State.DEAD]
    assert sorted(heard) == [
        ("dead", "no such account"),
        ("dead", "no such account"),
        ("done", "acme"),
        ("retry", "3"),
    ]


async def test_submitting_and_the_worker_itself_are_heard_of(make_app: MakeApp) -> None:
    heard: list[object] = []
    async with make_app() as app:
        app.handler("orders")(lambda payload: None)
        app.on("accepted")(heard.append)
        app.on("worker-started")(heard.append)
        async with working(app) as events:
            await app.submit_many("orders", [Submission(n) for n in range(3)])
            await events.wait_for(Completed, 3)
            await app.hooks_idle()
    assert {type(event) for event in heard} == {BatchAccepted, WorkerStarted}
    assert [event.count for event in heard if isinstance(event, BatchAccepted)] == [3]


async def test_two_hooks_of_one_event_do_not_wait_for_each_other(make_app: MakeApp) -> None:
    slow, fast = asyncio.Event(), asyncio.Event()

    async with make_app() as app:
        app.handler("orders")(lambda payload: None)

        @app.on("done")
        async def waits(_: Completed) -> None:
            await slow.wait()

        @app.on("done")
        async def goes(_: Completed) -> None:
            fast.set()

        async with working(app) as events:
            await app.submit("orders", 1)
            await events.wait_for(Completed)
            async with asyncio.timeout(30):
                await fast.wait()
        slow.set()


def _raise(error: BaseException) -> Callable[[Any], Coroutine[Any, Any, None]]:
    async def hook(_: object) -> None:
        raise error

    return hook


async def _hears(_: object) -> None:
    await asyncio.sleep(0)


async def _cancels_all(_: object) -> None:
    for task in asyncio.all_tasks():
        task.cancel()


def _plainly(error: BaseException) -> Callable[[Any], None]:
    def hook(_: object) -> None:
        raise error

    return hook


@pytest.mark.parametrize(
    "hook",
    [
        _raise(ValueError("a bug, password=hunter2")),
        _raise(SystemExit(3)),
        _raise(asyncio.CancelledError()),
        _cancels_all,
        _plainly(ValueError("a bug, password=hunter2")),
        _plainly(SystemExit(3)),
        lambda _: asyncio.sleep(0),
    ],
    ids=["raises", "exits", "cancelled", "cancels all", "def raises", "def exits", "def answers with work"],
)
async def test_a_hook_that_fails_is_logged_once_and_nothing_else_happens(
    hook: Callable[[Any], Any], make_app: MakeApp, caplog: pytest.LogCaptureFixture
) -> None:
    async with make_app() as app:
        app.handler("orders")(lambda payload: None)
        app.on("done")(hook)
        async with working(app, survives=True) as events:
            for number in range(5):
                await app.submit("orders", number)
                await events.wait_for(Completed, number + 1)
            await app.hooks_idle()
            failed = events.of(HookFailed)
    assert len(failed) in (0, 5)
    told = [text for text in caplog.messages if "Hook failed" in text and "times in" not in text]
    assert len(told) == min(1, len(failed))
    assert "hunter2" not in caplog.text


async def test_a_hook_past_its_limit_is_cancelled_and_the_next_event_is_heard(make_app: MakeApp) -> None:
    calls: list[str] = []

    async with make_app() as app:
        app.handler("orders")(lambda payload: None)

        @app.on("done", limit=0.05)
        async def hook(event: Completed) -> None:
            calls.append(event.delivery.message.body.decode())
            if len(calls) == 1:
                await asyncio.Event().wait()

        async with working(app) as events:
            await app.submit("orders", 1)
            await events.wait_for(HookFailed)
            await app.submit("orders", 2)
            await events.wait_for(Completed, 2)
            await app.hooks_idle()
            (failed,) = events.of(HookFailed)
    assert calls == ["1", "2"]
    assert isinstance(failed, HookFailed)
    assert "longer than 0.05 s" in failed.error


async def test_a_def_hook_past_its_limit_keeps_its_thread_and_nobody_waits_for_it(make_app: MakeApp) -> None:
    release, calls = threading.Event(), list[int]()

    async with make_app() as app:
        app.handler("orders", concurrency=1)(lambda payload: None)

        @app.on("done", limit=0.05)
        def hook(_: Completed) -> None:
            calls.append(1)
            release.wait(30)

        async with working(app) as events:
            for number in range(engine_hooks._STUCK_THREADS + 3):
                await app.submit("orders", number)
            await events.wait_for(HookFailed, engine_hooks._STUCK_THREADS)
            await events.wait_for(Completed, engine_hooks._STUCK_THREADS + 3)
            await app.hooks_idle()
            await wait_until(lambda: len(calls) >= engine_hooks._STUCK_THREADS, 20, "every thread has begun")
            assert len(calls) == engine_hooks._STUCK_THREADS
        release.set()


async def test_what_a_slow_hook_misses_is_counted_and_logged(
    make_app: MakeApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_hooks, "LENGTH", 5)
    going, heard = asyncio.Event(), list[object]()

    async with make_app() as app:

        @app.on("accepted")
        async def hook(event: BatchAccepted) -> None:
            await going.wait()
            heard.append(event)

        dropped: list[HookDropped] = []
        app.telemetry.add(lambda event: dropped.append(event) if isinstance(event, HookDropped) else None)
        for number in range(20):
            app.telemetry.emit(BatchAccepted("orders", number))
        going.set()
        await app.hooks_idle()
    assert [event.count for event in dropped] == [1, 14]
    assert len(heard) == 5


async def test_a_scrape_says_what_hooks_of_all_processes_missed(
    make_app: MakeApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_hooks, "LENGTH", 5)
    for missed in (0, 15):
        async with make_app() as app:
            app.on("accepted")(_hears)
            assert f"redrive_hooks_dropped_total {missed}\n" in (await scrape(app.store)).text()
            for number in range(20):
                app.telemetry.emit(BatchAccepted("orders", number))
    async with make_app() as app:
        assert "redrive_hooks_dropped_total 30\n" in (await scrape(app.store)).text()


async def _scraped(app: Redrive) -> str:
    await asyncio.sleep(0)  # reading a file lets nobody else run
    return (await scrape(app.store)).text()


async def test_what_a_burst_drops_is_told_soon_after_it_though_nothing_else_happens(
    make_app: MakeApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_hooks, "LENGTH", 5)
    monkeypatch.setattr(engine_hooks, "_TOLD_EVERY_S", 0.01)
    monkeypatch.setattr(engine_totals, "_TURN_S", 0.01)
    going = asyncio.Event()

    async with make_app() as app:

        @app.on("accepted")
        async def hangs(_: BatchAccepted) -> None:
            await going.wait()

        events = Events(app)
        for number in range(20):
            app.telemetry.emit(BatchAccepted("orders", number))
        dropped = await events.wait_for(HookDropped, 2)
        assert [event.count for event in dropped if isinstance(event, HookDropped)] == [1, 14]
        async with asyncio.timeout(30):
            while "redrive_hooks_dropped_total 15\n" not in await _scraped(app):
                pass
        going.set()
    assert events.of(HookDropped) == dropped


async def test_large_messages_do_not_fill_memory_while_a_hook_hangs(
    make_app: MakeApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_hooks, "BODY_BYTES", 100_000)
    going, heard = asyncio.Event(), list[object]()
    async with make_app() as app:
        app.handler("orders")(lambda payload: None)

        @app.on("done")
        async def hook(event: Completed) -> None:
            await going.wait()
            heard.append(event)

        async with working(app) as events:
            await app.submit_many("orders", [Submission("x" * 50_000) for _ in range(10)])
            await events.wait_for(Completed, 10)
            going.set()
            await app.hooks_idle()
    dropped = [event.count for event in events.of(HookDropped) if isinstance(event, HookDropped)]
    assert len(heard) + sum(dropped) == 10
    assert len(heard) <= 3


async def test_events_of_other_threads_reach_the_hook_in_the_apps_loop(make_app: MakeApp) -> None:
    threads: list[int] = []
    async with make_app() as app:

        @app.on("accepted")
        async def hook(_: BatchAccepted) -> None:
            threads.append(threading.get_ident())

        await asyncio.to_thread(app.telemetry.emit, BatchAccepted("orders", 1))
        await asyncio.sleep(0)
        await app.hooks_idle()
    assert threads == [threading.get_ident()]


async def test_an_app_that_closes_lets_its_hooks_hear_of_everything(make_app: MakeApp) -> None:
    heard: list[object] = []
    async with make_app() as app:

        @app.on("accepted")
        async def hook(event: BatchAccepted) -> None:
            await asyncio.sleep(0)
            heard.append(event)

        for number in range(50):
            app.telemetry.emit(BatchAccepted("orders", number))
    assert len(heard) == 50


def test_in_a_trial_hooks_have_heard_when_all_is_idle(make_app: MakeApp) -> None:
    app, heard = make_app(), list[str]()

    @app.handler("orders")
    def handle(payload: int) -> None:
        raise Permanent("no")

    @app.on("dead")
    async def died(event: Buried) -> None:
        await asyncio.sleep(0)
        heard.append(event.reason.value)

    with trial(app) as test:
        app.sync.submit("orders", 1)
        test.run_until_idle()
        assert heard == ["permanent"]


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (lambda app: app.on("died"), "no event 'died' to hook on: use one of accepted, done, retry, dead"),
        (lambda app: app.on(print), 'write @app.on\\("dead"\\)'),
        (lambda app: app.on("dead", limit=0), "more than 0"),
        (lambda app: app.on("dead", limit="soon"), "limit is not a number of seconds"),
    ],
)
def test_a_wrong_hook_is_refused_where_it_is_written(
    wrong: Callable[[Redrive], Any], says: str, make_app: MakeApp
) -> None:
    with pytest.raises(ConfigurationError, match=says):
        wrong(make_app())(lambda event: None)


async def test_a_fast_store_is_not_slowed_by_a_blocked_hook(make_app: MakeApp) -> None:
    """500 messages are done while a hook hangs: nobody waits for it."""
    async with make_app() as app:
        app.handler("orders")(lambda payload: None)
        blocked = asyncio.Event()

        @app.on("done")
        async def hook(_: Completed) -> None:
            await blocked.wait()

        async with working(app) as events:
            await app.submit_many("orders", [Submission(n) for n in range(500)])
            await events.wait_for(Completed, 500)
        blocked.set()
