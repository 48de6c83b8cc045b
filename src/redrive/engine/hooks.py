"""Calls a team's own hooks, beside the work and never in its way.

Each hook has a line of its own, in which at most a thousand events wait, and so many bytes of bodies: what
comes when it is full is dropped, counted and logged, the first at once and the others every ten seconds. One
call at a time, in order, each with a time limit.
An `async def` hook runs in the app's event loop and is cancelled past its limit; a `def` hook runs in a
thread, which cannot be stopped: past its limit the line goes on without it, and while several such threads
still run, no other is started.
Known weakness: an `async def` hook that blocks does block the event loop, as a handler would.
"""

from __future__ import annotations

import asyncio
import threading
import traceback
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from pathlib import PurePath
from typing import Any

from redrive.core.message import Delivery
from redrive.core.values import as_text
from redrive.engine.execution import Threads, refuse_work
from redrive.engine.handlers import awaits
from redrive.engine.ownership import OwnTask, handler_context, start_own
from redrive.telemetry.door import Telemetry
from redrive.telemetry.events import Event, HookDropped, HookFailed
from redrive.telemetry.hooks import Hook, HookSink

LENGTH = 1_000
BODY_BYTES = 32 * 1024 * 1024
PATIENCE_S = 5.0
_TOLD_EVERY_S = 10.0
_CANCEL_S = 1.0
_STUCK_THREADS = 4


class _Line:
    """What waits for one hook."""

    def __init__(self, hook: Hook) -> None:
        self.hook = hook
        self.awaits = awaits(hook.function)
        self.events: deque[Event] = deque()
        self.body_bytes = 0
        self.some = asyncio.Event()
        self.idle = asyncio.Event()
        self.idle.set()
        self.dropped = 0
        self.timer: asyncio.TimerHandle | None = None
        self.task: OwnTask | None = None

    @property
    def full(self) -> bool:
        return len(self.events) >= LENGTH or self.body_bytes >= BODY_BYTES

    def add(self, event: Event) -> None:
        self.events.append(event)
        self.body_bytes += _body_bytes(event)
        self.idle.clear()
        self.some.set()

    def take(self) -> Event:
        event = self.events.popleft()
        self.body_bytes -= _body_bytes(event)
        return event


def _body_bytes(event: Event) -> int:
    """What a waiting event keeps in memory of its message."""
    delivery: Delivery | None = getattr(event, "delivery", None)
    return 0 if delivery is None else len(delivery.message.body) + len(delivery.parent_body or b"")


class HooksDuty:
    """The hooks of one event loop."""

    def __init__(self, sink: HookSink, telemetry: Telemetry) -> None:
        self._sink = sink
        self._telemetry = telemetry
        self._lines: dict[Hook, _Line] = {}
        self._threads = Threads()
        self._stuck = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = 0

    def start(self) -> None:
        """Begin, for the running loop."""
        self._loop, self._thread = asyncio.get_running_loop(), threading.get_ident()
        self._sink.open(self)

    def put(self, hook: Hook, event: Event) -> None:
        """Call a hook soon, or drop the event; never waits, from any thread."""
        if threading.get_ident() == self._thread:
            self._put(hook, event)
        elif self._loop is not None:
            with suppress(RuntimeError):  # the loop is closed: nobody is there to be told
                self._loop.call_soon_threadsafe(self._put, hook, event)

    async def idle(self, patience_s: float = PATIENCE_S) -> None:
        """Wait until every hook has heard of what happened so far, for so long at most."""
        with suppress(TimeoutError):
            async with asyncio.timeout(patience_s):
                for line in list(self._lines.values()):
                    await line.idle.wait()

    async def close(self) -> None:
        """Let the hooks hear of what waits, then end; what is left after some seconds is dropped."""
        self._sink.close(self)
        await self.idle()
        for line in self._lines.values():
            line.dropped += len(line.events)
            self._tell_dropped(line)
            if line.timer is not None:
                line.timer.cancel()
            if line.task is not None:
                line.task.end()
        if tasks := [line.task for line in self._lines.values() if line.task is not None]:
            await asyncio.wait(tasks)
        self._threads.close()

    def _put(self, hook: Hook, event: Event) -> None:
        line = self._lines.get(hook)
        if line is None:
            line = self._lines[hook] = _Line(hook)
            line.task = start_own(self._run(line), f"redrive-hook-{hook.event}")
        if line.full:
            self._drop(line)
        else:
            line.add(event)

    def _drop(self, line: _Line) -> None:
        line.dropped += 1
        if line.timer is None:
            self._tell_periodically(line)

    def _tell_periodically(self, line: _Line) -> None:
        """Tell now, and again after a while if more was dropped by then: nothing else need happen."""
        line.timer = None
        if line.dropped and self._loop is not None:
            line.timer = self._loop.call_later(_TOLD_EVERY_S, self._tell_periodically, line)
        self._tell_dropped(line)

    def _tell_dropped(self, line: _Line) -> None:
        if line.dropped:
            self._telemetry.emit(HookDropped(line.hook.name, line.hook.event, line.dropped))
            line.dropped = 0

    async def _run(self, line: _Line) -> None:
        while True:
            await line.some.wait()
            while line.events:
                await self._call(line, line.take())
            line.some.clear()
            line.idle.set()

    async def _call(self, line: _Line, event: Event) -> None:
        hook = line.hook
        if line.awaits:
            problem = await self._await(hook, event)
        elif self._stuck < _STUCK_THREADS:
            problem = await self._run_thread(hook, event)
        else:
            self._drop(line)
            return
        if problem is not None:
            self._telemetry.emit(HookFailed(hook.name, hook.event, problem))

    async def _await(self, hook: Hook, event: Event) -> str | None:
        """Run it in a task of its own, in a handler's context: what it does to its task, or to all tasks,
        does not reach ours."""
        loop = asyncio.get_running_loop()
        task = asyncio.Task(_outcome(hook.function, event), loop=loop, context=handler_context())
        try:
            await asyncio.wait({task}, timeout=hook.limit_s)
            if task.done():
                return None if task.cancelled() else _problem(task.result())
        finally:
            task.cancel()
        await asyncio.wait({task}, timeout=_CANCEL_S)
        return f"it took longer than {hook.limit_s:g} s and was cancelled"

    async def _run_thread(self, hook: Hook, event: Event) -> str | None:
        future = self._threads.run(lambda: _plain_outcome(hook.function, event))
        result = asyncio.wrap_future(future)
        await asyncio.wait({result}, timeout=hook.limit_s)
        if result.done():
            return _problem(result.result())
        self._stuck += 1
        result.add_done_callback(self._unstuck)
        return f"it takes longer than {hook.limit_s:g} s; its thread still runs"

    def _unstuck(self, _: object) -> None:
        self._stuck -= 1


async def _outcome(function: Callable[[Any], Any], event: Event) -> BaseException | None:
    """What a hook raised, as a value: what ends a process must not end ours."""
    try:
        await function(event)
    except asyncio.CancelledError:
        raise
    except BaseException as error:  # noqa: BLE001 - a hook may raise anything
        return error
    return None


def _plain_outcome(function: Callable[[Any], object], event: Event) -> BaseException | None:
    try:
        answer = function(event)
        if answer is not None:
            refuse_work(answer)
    except BaseException as error:  # noqa: BLE001 - a hook may raise anything
        return error
    return None


def _problem(error: BaseException | None) -> str | None:
    """What went wrong, and where; without the values of anything."""
    if error is None:
        return None
    frames = traceback.extract_tb(error.__traceback__)
    place = f" ({PurePath(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}: {as_text(error)}{place}"
