"""The attempts of one queue in one worker: what was claimed and has not begun, and what runs.

Each attempt has a context of its own, so that context variables of one message never reach the next. Attempts
that wait for nothing run one after the other in one task, for a millisecond at most, so that the event loop
goes on in between; the one that waits keeps the task and another goes on with the rest.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence

from redrive.core.message import Delivery
from redrive.core.ports import Source
from redrive.core.retry import RetryPolicy
from redrive.core.verdict import Deferred
from redrive.engine.execution import Executor
from redrive.engine.failures import unknown
from redrive.engine.handlers import Served
from redrive.engine.ownership import handler_context
from redrive.engine.ruling import Ruling, rule
from redrive.engine.settler import Settler
from redrive.engine.shared_task import SharedTask, rest
from redrive.engine.slots import Slots
from redrive.telemetry.door import Telemetry
from redrive.telemetry.events import LoopFailed

_TURN_S = 0.001
_MEMORY = 0.1


class Attempts:
    """Begins attempts as slots become free, until it is stopped; `ended` is called when some have ended."""

    def __init__(
        self,
        served: Served,
        source: Source,
        executor: Executor,
        settler: Settler,
        slots: Slots,
        telemetry: Telemetry,
        ended: Callable[[], None],
    ) -> None:
        self._served = served
        self._source = source
        self._executor = executor
        self._settler = settler
        self._slots = slots
        self._telemetry = telemetry
        self._ended = ended
        self._buffer: deque[Delivery] = deque()
        self._tasks: dict[SharedTask, Delivery | None] = {}
        self._ready = 0
        self._waits = False
        self._context = handler_context()
        self._stopping = False
        self.average_s = 1.0
        """How long the last attempts took."""
        slots.on_free(self._start)

    @property
    def outstanding(self) -> int:
        """How many are under way or about to be."""
        return len(self._tasks) - self._ready + len(self._buffer)

    def add(self, deliveries: Sequence[Delivery]) -> None:
        """Begin these soon, or give them back when no more are begun."""
        self._buffer.extend(deliveries)
        if self._stopping:
            self._give_back_waiting()
        else:
            self._start()

    def stop(self) -> None:
        """Begin no more, and give back what has not begun."""
        self._stopping = True
        self._give_back_waiting()

    async def drain(self, patience_s: float, lease_s: float) -> int:
        """Let running attempts end, then cancel them; how many had to be given back or left behind."""
        if running := self._running():
            await asyncio.wait(running, timeout=patience_s)
        unfinished = self._running()
        for task in unfinished:
            self._executor.give_up(task)
        if unfinished:
            await asyncio.wait(unfinished, timeout=1.0)
        for task, delivery in unfinished.items():
            if not task.done():
                self._abandon(delivery, lease_s)
        return len(unfinished)

    def forfeit(self, token: str) -> None:
        """A lease is lost: forget what has not begun, cancel what runs (its settle would be refused)."""
        kept = deque(delivery for delivery in self._buffer if delivery.lease.token != token)
        self._slots.settled(len(self._buffer) - len(kept))
        self._buffer = kept
        for task, delivery in self._running().items():
            if delivery.lease.token == token:
                self._executor.give_up(task)

    def _running(self) -> dict[SharedTask, Delivery]:
        return {task: delivery for task, delivery in self._tasks.items() if delivery is not None}

    def _start(self) -> None:
        """One task for all that has not begun; where the last attempt waited, one for each."""
        wanted = len(self._buffer) if self._waits else min(1, len(self._buffer))
        slots = self._served.settings.concurrency
        while self._ready < wanted and len(self._tasks) < slots and self._slots.take():
            self._ready += 1
            self._tasks[SharedTask(self._run(), self._context)] = None

    async def _run(self) -> None:
        task = asyncio.current_task()
        assert isinstance(task, SharedTask)  # noqa: S101 - `_start` made it
        task.begun = True
        self._ready -= 1
        try:
            await self._run_in_turn(task)
        finally:
            del self._tasks[task]
            self._slots.give()
            if not self._stopping:
                self._start()
            self._ended()

    async def _run_in_turn(self, task: SharedTask) -> None:
        """Attempts one after the other, until one waits and has the task to itself."""
        ends_s = time.perf_counter() + _TURN_S
        while self._buffer and not task.touched:
            delivery, context = self._buffer.popleft(), self._context.copy()
            attempt = self._attempt(delivery)
            try:
                waits_for = context.run(attempt.send, None)
            except StopIteration:
                self._waits = False
                if self._ready or time.perf_counter() > ends_s:
                    return
                continue
            self._waits = True
            self._tasks[task] = delivery
            self._start()
            await rest(attempt, waits_for, context)
            return

    async def _attempt(self, delivery: Delivery) -> None:
        began_s = time.perf_counter()
        try:
            outcome = await self._executor.run(self._served, delivery)
            duration_s = time.perf_counter() - began_s
            self.average_s += _MEMORY * (duration_s - self.average_s)
            ruling = rule(delivery, outcome, self._served.policy, self._source.now(), duration_s)
        except BaseException as error:  # noqa: BLE001 - whatever it is, it must not end the station
            ruling = self._mishap(delivery, error)
        self._settler.add(ruling, last=not self._buffer and len(self._tasks) == 1)

    def _mishap(self, delivery: Delivery, error: BaseException) -> Ruling:
        """Something of ours went wrong after the handler's end: a counted failure, never a free return."""
        self._telemetry.emit(LoopFailed("attempt", error))
        now = self._source.now()
        outcome = unknown(delivery, now, "the attempt's outcome could not be judged: see the worker's log")
        try:
            return rule(delivery, outcome, self._served.policy, now)
        except Exception:  # noqa: BLE001 - the policy itself may be what is wrong
            return rule(delivery, outcome, RetryPolicy(), now)

    def _give_back_waiting(self) -> None:
        now = self._source.now()
        while self._buffer:
            self._settler.add(rule(self._buffer.popleft(), Deferred(now), self._served.policy, now))

    def _abandon(self, delivery: Delivery, lease_s: float) -> None:
        """A task that ignores its cancellation: its message waits for a lease's length before it runs."""
        now = self._source.now()
        later = Deferred(now + round(lease_s * 1000))
        self._settler.add(rule(delivery, later, self._served.policy, now))
