"""One queue in one worker: claims what will run soon, runs it, hands the outcomes to the settler.

How much is claimed follows from how long the handler takes: a slow handler claims what fits its slots,
a fast one a whole batch, so that a crash hands out again as little as possible. Each attempt is a task
of its own in a context of its own, so that context variables of one message never reach the next. An
attempt that ends starts the next one itself: a callback would cost a round of the event loop.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from redrive.core.message import Delivery
from redrive.core.ports import Claim, Claimed, Source
from redrive.core.retry import RetryPolicy
from redrive.core.settings import WorkerSettings
from redrive.core.verdict import Deferred
from redrive.engine.execution import Executor
from redrive.engine.failures import unknown
from redrive.engine.handlers import Served
from redrive.engine.ids import new_token
from redrive.engine.keeper import Keeper
from redrive.engine.ownership import handler_context
from redrive.engine.ruling import Ruling, rule
from redrive.engine.settler import Settler
from redrive.engine.slots import Slots
from redrive.telemetry.events import LoopFailed, Telemetry

_SUSPECTS_IN_A_ROW = 20
_SHORTEST_S = 0.000_01
_MEMORY = 0.1


class Station:
    """The claim loop, buffer and running attempts of one queue."""

    def __init__(
        self,
        served: Served,
        settings: WorkerSettings,
        source: Source,
        executor: Executor,
        settler: Settler,
        keeper: Keeper,
        slots: Slots,
        telemetry: Telemetry,
    ) -> None:
        self.served = served
        self._settings = settings
        self._source = source
        self._executor = executor
        self._settler = settler
        self._keeper = keeper
        self._slots = slots
        self._telemetry = telemetry
        self._buffer: deque[Delivery] = deque()
        self._running: dict[asyncio.Task[None], Delivery] = {}
        self._context = handler_context()
        self._wanted = asyncio.Event()
        self._wanted.set()
        self._nudged = asyncio.Event()
        self._stopping = False
        self._average_s = 1.0
        self._suspects_after_s: float | None = None
        self._unanswered: dict[bool, str] = {}
        self.idle: Callable[[bool], None] = lambda _: None
        slots.on_free(self._start)

    @property
    def outstanding(self) -> int:
        return len(self._running) + len(self._buffer)

    async def step(self) -> float:
        """One claim, when there is room for it; sleeps when there is nothing to claim."""
        await self._slots.opened()
        await self._wanted.wait()
        if self._stopping or not self._slots.is_open:
            return 0.0
        if self._suspects_after_s is not None and time.monotonic() >= self._suspects_after_s:
            await self._run_suspects()
            return 0.0
        room = self._room()
        if room == 0:
            self._wanted.clear()
            return 0.0
        self._nudged.clear()
        claimed = await self._claim(room, alone=False)
        if claimed.suspects and self._suspects_after_s is None:
            self._suspects_after_s = time.monotonic()
        elif self._got_all(claimed) and not self._stopping:
            await self._sleep(claimed.next_at)
        return 0.0

    def nudge(self) -> None:
        """Work may be due."""
        self._nudged.set()

    def stop(self) -> None:
        """Claim no more and give back what has not begun."""
        self._stopping = True
        while self._buffer:
            self._give_back(self._buffer.popleft())
        self._wanted.set()
        self._nudged.set()

    async def drain(self, patience_s: float) -> int:
        """Let running attempts end, then cancel them; how many had to be given back or left behind."""
        if self._running:
            await asyncio.wait(self._running, timeout=patience_s)
        self.sweep()
        unfinished = dict(self._running)
        for task in unfinished:
            self._executor.give_up(task)
        if unfinished:
            await asyncio.wait(unfinished, timeout=1.0)
        self.sweep()
        for task, delivery in unfinished.items():
            if not task.done():
                self._abandon(delivery)
        return len(unfinished)

    def forfeit(self, token: str) -> None:
        """The lease is lost: forget what has not begun, cancel what runs (its settle would be refused)."""
        mine = [delivery for delivery in self._buffer if delivery.lease.token == token]
        if mine:
            self._buffer = deque(d for d in self._buffer if d.lease.token != token)
            self._slots.settled(len(mine))
        for task, delivery in self._running.items():
            if delivery.lease.token == token:
                self._executor.give_up(task)
        asyncio.get_running_loop().call_soon(self.sweep)
        self._want()

    async def _claim(self, limit: int, *, alone: bool) -> Claimed:
        """A claim that got no answer is asked again under its token, so that nothing it took lapses."""
        with self._slots.claiming():
            self._settler.hurry()
            await asyncio.sleep(0)
            claimed = await self._source.claim(
                Claim(
                    queue=self.served.queue,
                    token=self._unanswered.setdefault(alone, new_token()),
                    limit=limit,
                    lease_s=self._settings.lease_s,
                    max_bytes=self._settings.batch_bytes,
                    quantum=self._settings.quantum,
                    rate=self.served.rate,
                    alone=alone,
                )
            )
            del self._unanswered[alone]
            if claimed.deliveries:
                self._receive(claimed.deliveries)
        return claimed

    def _got_all(self, claimed: Claimed) -> bool:
        """Whether another claim would find nothing now: the store says when more may be due."""
        later = claimed.next_at is None or claimed.next_at > self._source.now()
        return later or not claimed.deliveries

    def _receive(self, deliveries: tuple[Delivery, ...]) -> None:
        self._slots.hold(len(deliveries))
        lease = deliveries[0].lease
        self._keeper.hold(lease, len(deliveries), (lease.until_at - self._source.now()) / 1000)
        if self._stopping:
            for delivery in deliveries:
                self._give_back(delivery)
            return
        self._buffer.extend(deliveries)
        self._start()
        self._want()

    def _start(self) -> None:
        slots, loop = self.served.settings.concurrency, asyncio.get_running_loop()
        while self._buffer and len(self._running) < slots and self._slots.take():
            delivery = self._buffer.popleft()
            task = loop.create_task(self._attempt(delivery), context=self._context.copy())
            self._running[task] = delivery

    async def _attempt(self, delivery: Delivery) -> None:
        began_s = time.perf_counter()
        try:
            outcome = await self._executor.run(self.served, delivery)
            duration_s = time.perf_counter() - began_s
            self._average_s += _MEMORY * (duration_s - self._average_s)
            ruling = rule(delivery, outcome, self.served.policy, self._source.now(), duration_s)
        except BaseException as error:  # noqa: BLE001 - whatever it is, it must not end the station
            ruling = self._mishap(delivery, error)
        try:
            self._settler.add(ruling, last=not self._buffer and len(self._running) == 1)
        finally:
            self._ended(asyncio.current_task())

    def _mishap(self, delivery: Delivery, error: BaseException) -> Ruling:
        """Something of ours went wrong after the handler's end: a counted failure, never a free return."""
        self._telemetry.emit(LoopFailed("attempt", error))
        now = self._source.now()
        outcome = unknown(delivery, now, "the attempt's outcome could not be judged: see the worker's log")
        try:
            return rule(delivery, outcome, self.served.policy, now)
        except Exception:  # noqa: BLE001 - the policy itself may be what is wrong
            return rule(delivery, outcome, RetryPolicy(), now)

    def _ended(self, task: asyncio.Task[Any] | None) -> None:
        assert task is not None  # noqa: S101 - a coroutine runs in a task
        del self._running[task]
        self._slots.give()
        if not self._stopping:
            self._start()
        if not self._wanted.is_set():
            self._want()

    def sweep(self) -> None:
        """An attempt that was cancelled before it began ran none of its lines: it is ended here."""
        for task in [task for task in self._running if task.done()]:
            self._give_back(self._running[task])
            self._ended(task)

    def _room(self) -> int:
        """How many more to claim: enough to keep the slots busy for `prefetch_s`, at most a batch.

        The slots and what they will finish within `prefetch_s`, as fast as the last attempts were, less what
        is here already. A fast handler waits until half of that is used up: small claims cost as much as
        large ones.
        """
        slots = self.served.settings.concurrency
        ahead = self._settings.prefetch_s * slots / max(self._average_s, _SHORTEST_S)
        target = min(max(self._settings.batch, slots), slots + int(ahead))
        room = target - len(self._buffer) - len(self._running)
        enough = target // 2 if target > 2 * slots else 1
        return room if room >= enough else 0

    def _want(self) -> None:
        if self._stopping or self._room() > 0:
            self._wanted.set()
        else:
            self._wanted.clear()

    async def _sleep(self, next_at: int | None) -> None:
        pause_s = self._settings.poll_s
        if next_at is not None:
            pause_s = min(pause_s, max(0.001, (next_at - self._source.now()) / 1000))
        self.idle(True)
        try:
            async with asyncio.timeout(pause_s):
                await self._nudged.wait()
        except TimeoutError:
            return
        finally:
            self.idle(False)

    async def _run_suspects(self) -> None:
        """Messages whose worker crashed run one at a time with nothing else in flight."""
        async with self._slots.alone(self._settings.lease_s) as quiet:
            self._suspects_after_s = None if quiet else time.monotonic() + self._settings.lease_s
            for _ in range(_SUSPECTS_IN_A_ROW if quiet else 0):
                claimed = await self._claim(1, alone=True)
                if not claimed.deliveries or self._stopping:
                    return
                await self._slots.quiet()
            if quiet:
                self._suspects_after_s = time.monotonic()

    def _give_back(self, delivery: Delivery) -> None:
        now = self._source.now()
        self._settler.add(rule(delivery, Deferred(now), self.served.policy, now))

    def _abandon(self, delivery: Delivery) -> None:
        """A task that ignores its cancellation: its message waits for a lease's length before it runs."""
        now = self._source.now()
        later = Deferred(now + round(self._settings.lease_s * 1000))
        self._settler.add(rule(delivery, later, self.served.policy, now))
