"""One attempt: from a delivery to its Outcome. Whatever the handler does, an Outcome comes back.

Async handlers run under their deadline and are cancelled when it passes. A `def` handler cannot be
stopped: past its deadline it keeps its slot and its lease until its thread ends, and its result stands
(P21). Cancelling an attempt (drain, lost lease) gives the message back, never counts it (P6).
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from redrive.core.errors import Hold, Later
from redrive.core.failure import Kind
from redrive.core.message import Delivery
from redrive.core.verdict import Deferred, Done, Failed, Held, Outcome, Unreadable
from redrive.engine.deadlines import Deadlines
from redrive.engine.failures import failed, lapsed, plain_failure
from redrive.engine.handlers import Served
from redrive.engine.payload import unreadable
from redrive.engine.threads import Threads
from redrive.telemetry.events import HandlerOverran, Telemetry


class Executor:
    """Runs attempts. `now` is the store's clock."""

    def __init__(self, now: Callable[[], int], telemetry: Telemetry, lease_s: float) -> None:
        self._now = now
        self._telemetry = telemetry
        self._lease_s = lease_s
        self._threads = Threads()
        self._deadlines: dict[str, Deadlines] = {}

    def close(self) -> None:
        """Let idle threads end, and watch no deadline any more."""
        self._threads.close()
        for deadlines in self._deadlines.values():
            deadlines.close()

    async def run(self, served: Served, delivery: Delivery) -> Outcome:
        """Run the handler, unless the record is unreadable or too old to be tried."""
        now = self._now()
        if delivery.unreadable is not None:
            return Unreadable(plain_failure(delivery, now, Kind.PERMANENT, delivery.unreadable, "unreadable"))
        if delivery.progress.expires_at <= now:
            return lapsed(delivery, now)
        try:
            payload = served.handler.decode(delivery.message.body)
        except Exception as error:  # noqa: BLE001 - a user type's own hook may raise anything
            why = unreadable(error)
            if why is None:
                return failed(error, delivery, self._now())
            return Unreadable(plain_failure(delivery, now, Kind.PERMANENT, why, "unreadable"))
        arguments = (payload, delivery) if served.handler.takes_delivery else (payload,)
        run = self._run_async if served.handler.is_async else self._run_thread
        return await run(served, delivery, arguments)

    async def _run_async(self, served: Served, delivery: Delivery, arguments: tuple[Any, ...]) -> Outcome:
        task, deadlines = asyncio.current_task(), self._deadlines_of(served)
        assert task is not None  # noqa: S101 - a coroutine runs in a task
        deadlines.start(task)
        error: BaseException | None = None
        try:
            await served.handler.function(*arguments)
        except (Exception, SystemExit, asyncio.CancelledError) as raised:  # noqa: BLE001 - a handler may raise anything
            error = raised
        late = deadlines.end(task)
        if not isinstance(error, asyncio.CancelledError):
            return self._judge(error, delivery)
        if late:
            return _past_deadline(delivery, served.settings.deadline_s, self._now())
        if task.cancelling():
            return Deferred(self._now())
        return failed(error, delivery, self._now())

    def _deadlines_of(self, served: Served) -> Deadlines:
        found = self._deadlines.get(served.queue)
        if found is None:
            found = self._deadlines[served.queue] = Deadlines(served.settings.deadline_s)
        return found

    async def _run_thread(self, served: Served, delivery: Delivery, arguments: tuple[Any, ...]) -> Outcome:
        started = self._threads.run(lambda: _plain_call(served.handler.function, arguments))
        result = asyncio.wrap_future(started)
        try:
            done, _ = await asyncio.wait({result}, timeout=served.settings.deadline_s)
            if not done:
                self._telemetry.emit(HandlerOverran(delivery, served.settings.deadline_s))
                await asyncio.wait({result})
        except asyncio.CancelledError:
            if result.done() and not result.cancelled():
                return self._judge(result.exception(), delivery)
            never_began = started.cancel()
            result.cancel()
            return Deferred(self._now() + (0 if never_began else round(self._lease_s * 1000)))
        return self._judge(result.exception(), delivery)

    def _judge(self, error: BaseException | None, delivery: Delivery) -> Outcome:
        return Done() if error is None else self._raised(error, delivery)

    def _raised(self, error: BaseException, delivery: Delivery) -> Outcome:
        now = self._now()
        if isinstance(error, Later):
            return Deferred(_instant(error.until, now))
        if isinstance(error, Hold):
            return Held(failed(error, delivery, now).failure)
        return failed(error, delivery, now)


def _past_deadline(delivery: Delivery, deadline_s: float, now: int) -> Failed:
    reason = f"the handler passed its deadline of {deadline_s:g} s and was cancelled"
    return Failed(plain_failure(delivery, now, Kind.TEMPORARY, reason, "deadline"))


def _plain_call(function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    result = function(*arguments)
    if inspect.isawaitable(result):
        if inspect.iscoroutine(result):
            result.close()
        raise TypeError("a def handler returned an awaitable that nobody would await: declare it async def")


def _instant(until: datetime | timedelta, now: int) -> int:
    if isinstance(until, timedelta):
        return now + max(0, round(until.total_seconds() * 1000))
    return max(now, round(until.timestamp() * 1000))
