"""One attempt: from a delivery to its Outcome. Whatever the handler does, an Outcome comes back.

Async handlers run under their deadline and are cancelled when it passes. A `def` handler cannot be
stopped: past its deadline it keeps its slot and its lease until its thread ends, and its result stands.
An attempt that the worker gives up (drain, lost lease) counts nothing; a handler that is
cancelled by anyone else has failed.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import threading
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from redrive.core.failure import Kind
from redrive.core.message import Delivery
from redrive.core.verdict import Deferred, Done, Failed, Held, Outcome, Unreadable
from redrive.engine.failures import lapsed, outcome_of, plain_failure
from redrive.engine.handlers import Served
from redrive.engine.payload import unreadable
from redrive.telemetry.door import Telemetry
from redrive.telemetry.events import HandlerOverran, HandlerRaised

if TYPE_CHECKING:
    from redrive.telemetry.traces import Traces

_Job = tuple["Future[Any]", Callable[[], Any]]


class Executor:
    """Runs attempts. `now` is the store's clock."""

    def __init__(self, now: Callable[[], int], telemetry: Telemetry, lease_s: float) -> None:
        self._now = now
        self._telemetry = telemetry
        self._lease_s = lease_s
        self._threads = Threads()
        self._deadlines: dict[str, Deadlines] = {}
        self._given_up: WeakSet[asyncio.Task[Any]] = WeakSet()

    def close(self) -> None:
        """Let idle threads end, and watch no deadline any more."""
        self._threads.close()
        for deadlines in self._deadlines.values():
            deadlines.close()

    def give_up(self, task: asyncio.Task[Any]) -> None:
        """Cancel an attempt whose message is given back: this alone counts nothing."""
        self._given_up.add(task)
        task.cancel()

    def run(self, served: Served, delivery: Delivery) -> Coroutine[Any, Any, Outcome]:
        """Run the handler, unless the record is unreadable or too old to be tried."""
        run = self._run_async if served.handler.is_async else self._run_thread
        traces = self._telemetry.traces
        return run(served, delivery) if traces is None else _traced(traces, run, served, delivery)

    def _arguments(self, served: Served, delivery: Delivery) -> tuple[Any, ...] | Outcome:
        """What the handler is called with, or what comes of the attempt without it."""
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
                return self._judge(error, delivery)
            return Unreadable(plain_failure(delivery, now, Kind.PERMANENT, why, "unreadable"))
        return (payload, delivery) if served.handler.takes_delivery else (payload,)

    async def _run_async(self, served: Served, delivery: Delivery) -> Outcome:
        arguments = self._arguments(served, delivery)
        if not isinstance(arguments, tuple):
            return arguments
        deadlines = self._deadlines.get(served.queue) or self._watch_deadlines(served)
        task = deadlines.start()
        error: BaseException | None = None
        try:
            answer = await served.handler.function(*arguments)
            if answer is not None:
                refuse_work(answer)
        except BaseException as raised:  # noqa: BLE001 - a handler may raise anything
            error = raised
        late = deadlines.end(task)
        if issubclass(type(error), asyncio.CancelledError):
            if late:
                return _past_deadline(delivery, served.settings.deadline_s, self._now())
            if task in self._given_up:
                return Deferred(self._now())
        return self._judge(error, delivery)

    def _watch_deadlines(self, served: Served) -> Deadlines:
        deadlines = self._deadlines[served.queue] = Deadlines(served.settings.deadline_s)
        return deadlines

    async def _run_thread(self, served: Served, delivery: Delivery) -> Outcome:
        arguments = self._arguments(served, delivery)
        if not isinstance(arguments, tuple):
            return arguments
        started = self._threads.run(lambda: _plain_call(served.handler.function, arguments))
        result = asyncio.wrap_future(started)
        ended = await self._wait(result, served.settings.deadline_s)
        if ended is False:
            self._telemetry.emit(HandlerOverran(delivery, served.settings.deadline_s))
            ended = await self._wait(result, None)
        if ended is None:
            never_began = started.cancel()
            result.cancel()
            return Deferred(self._now() + (0 if never_began else round(self._lease_s * 1000)))
        return self._judge(result.result(), delivery)

    async def _wait(self, result: asyncio.Future[Any], timeout_s: float | None) -> bool | None:
        """Whether a thread ended in time; None when the attempt was given up before.

        Any other cancellation changes nothing: the thread runs on, and its result stands.
        """
        ends_s = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            left_s = None if ends_s is None else max(0.0, ends_s - time.monotonic())
            try:
                await asyncio.wait({result}, timeout=left_s)
            except asyncio.CancelledError:
                if asyncio.current_task() in self._given_up and not result.done():
                    return None
            else:
                return result.done()

    def _judge(self, error: BaseException | None, delivery: Delivery) -> Outcome:
        if error is None:
            return Done()
        outcome = outcome_of(error, delivery, self._now())
        if isinstance(outcome, Failed | Held):
            self._telemetry.emit(HandlerRaised(delivery, outcome.failure, error))
        return outcome


async def _traced(
    traces: Traces,
    run: Callable[[Served, Delivery], Coroutine[Any, Any, Outcome]],
    served: Served,
    delivery: Delivery,
) -> Outcome:
    span, outcome = traces.begin(delivery), None
    try:
        outcome = await run(served, delivery)
    finally:
        if span is not None:
            span.end(outcome)
    return outcome


def refuse_work(answer: object) -> None:
    """A handler's answer that is itself work, which nobody would do, is the handler's mistake."""
    if inspect.iscoroutine(answer) or inspect.isgenerator(answer):
        answer.close()
    elif not (inspect.isawaitable(answer) or inspect.isasyncgen(answer)):
        return
    kind = type(answer).__name__
    raise TypeError(
        f"the handler returned a {kind}, and nobody would run it: declare it async def and await it"
    )


def _past_deadline(delivery: Delivery, deadline_s: float, now: int) -> Failed:
    reason = f"the handler passed its deadline of {deadline_s:g} s and was cancelled"
    return Failed(plain_failure(delivery, now, Kind.TEMPORARY, reason, "deadline"))


def _plain_call(function: Callable[..., Any], arguments: tuple[Any, ...]) -> BaseException | None:
    """What a `def` handler raised, as a value: a future cannot carry every exception as one."""
    try:
        answer = function(*arguments)
        if answer is not None:
            refuse_work(answer)
    except BaseException as error:  # noqa: BLE001 - a handler may raise anything
        return error
    return None


class Deadlines:
    """Cancels attempts that run for longer than `deadline_s`. Used from one event loop.

    Attempts of one queue have the same deadline, so the one that began first ends first, and one timer
    watches for all of them: an attempt costs a look-up in place of a timer of its own.
    """

    def __init__(self, deadline_s: float) -> None:
        self._deadline_s = deadline_s
        self._loop = asyncio.get_running_loop()
        self._ends_s: dict[asyncio.Task[object], float] = {}
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> asyncio.Task[object]:
        """The attempt of the current task, which is returned, begins."""
        task = asyncio.current_task(self._loop)
        assert task is not None  # noqa: S101 - a coroutine runs in a task
        ends_s = self._ends_s[task] = self._loop.time() + self._deadline_s
        if self._timer is None:
            self._timer = self._loop.call_at(ends_s, self._pass)
        return task

    def end(self, task: asyncio.Task[object]) -> bool:
        """An attempt is over; whether it was cancelled because its deadline had passed."""
        if self._ends_s.pop(task, None) is not None:
            return False
        task.uncancel()
        return True

    def close(self) -> None:
        """Watch no more."""
        if self._timer is not None:
            self._timer.cancel()

    def _pass(self) -> None:
        self._timer = None
        for task, ends_s in list(self._ends_s.items()):
            if ends_s > self._loop.time():
                self._timer = self._loop.call_at(ends_s, self._pass)
                return
            del self._ends_s[task]
            task.cancel()


class Threads:
    """Runs calls in threads; a call that has not begun can still be cancelled through its future.

    Daemons, so that a handler that never ends cannot keep a process alive. As many as run at once, kept for
    reuse: the worker bounds how many that is.
    """

    def __init__(self) -> None:
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._idle = 0
        self._count = 0

    def run(self, call: Callable[[], Any]) -> Future[Any]:
        """Start a call in the caller's context."""
        future: Future[Any] = Future()
        context = contextvars.copy_context()
        with self._lock:
            if self._idle:
                self._idle -= 1
            else:
                self._count += 1
                threading.Thread(
                    target=self._work, name=f"redrive-handler-{self._count}", daemon=True
                ).start()
        self._jobs.put((future, lambda: context.run(call)))
        return future

    def close(self) -> None:
        """Let the idle threads end; busy ones end after their call."""
        for _ in range(self._count):
            self._jobs.put(None)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            future, call = job
            _perform(future, call)
            del job, future, call
            with self._lock:
                self._idle += 1


def _perform(future: Future[Any], call: Callable[[], Any]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        result = call()
    except BaseException as error:  # noqa: BLE001 - handed to whoever awaits the future
        future.set_exception(error)
    else:
        future.set_result(result)
