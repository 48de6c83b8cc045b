"""The claims of one queue in one worker: what will run soon is asked for before it is wanted.

How much is claimed follows from how long the handler takes: a slow handler claims what fits its slots,
a fast one whole batches, so that a crash hands out again as little as possible. The next batch is asked for
while the one before it is worked on, so that handlers and store do not wait for each other; no more is asked
for while the store does not take the outcomes of what has run.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from redrive.core.message import Delivery
from redrive.core.ports import Claim, Claimed, Source
from redrive.core.settings import WorkerSettings
from redrive.engine.attempts import Attempts
from redrive.engine.execution import Executor
from redrive.engine.handlers import Served
from redrive.engine.ids import new_token
from redrive.engine.keeper import Keeper
from redrive.engine.settler import Settler
from redrive.engine.slots import Slots
from redrive.telemetry.door import Telemetry
from redrive.telemetry.events import BatchClaimed

_SUSPECTS_IN_A_ROW = 20
_SHORTEST_S = 0.000_01
_BATCHES_AHEAD = 2
_UNSETTLED_BATCHES = 4


class Station:
    """The claim loop of one queue, and its attempts."""

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
        self._settler = settler
        self._keeper = keeper
        self._slots = slots
        self._telemetry = telemetry
        self._attempts = Attempts(served, source, executor, settler, slots, telemetry, self._want)
        self._wanted = asyncio.Event()
        self._wanted.set()
        self._nudged = asyncio.Event()
        self._stopping = False
        self._suspects_after_s: float | None = None
        self._unanswered: dict[bool, str] = {}
        self.idle: Callable[[bool], None] = lambda _: None
        slots.on_settled(self._want)

    @property
    def outstanding(self) -> int:
        """How many attempts are under way or about to be."""
        return self._attempts.outstanding

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
        """Claim no more and give back what has not begun, also what a claim under way still brings."""
        self._stopping = True
        self._attempts.stop()
        self._wanted.set()
        self._nudged.set()

    async def drain(self, patience_s: float) -> int:
        """Let running attempts end, then cancel them; how many had to be given back or left behind."""
        return await self._attempts.drain(patience_s, self._settings.lease_s)

    def forfeit(self, token: str) -> None:
        """A lease is lost: nothing that it held may run on."""
        self._attempts.forfeit(token)
        self._want()

    async def _claim(self, limit: int, *, alone: bool) -> Claimed:
        """A claim that got no answer is asked again under its token, so that nothing it took lapses."""
        with self._slots.claiming():
            if self._settler.hurry():
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
                    fair=self.served.settings.fair,
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
        now = self._source.now()
        self._keeper.hold(lease, len(deliveries), (lease.until_at - now) / 1000)
        self._telemetry.emit(BatchClaimed(self.served.queue, deliveries, now))
        self._attempts.add(deliveries)
        self._want()

    def _room(self) -> int:
        """How many more to claim: enough to keep the slots busy for `prefetch_s`, at most two batches.

        The slots and what they will finish within `prefetch_s`, as fast as the last attempts were, less what
        is here already. A fast handler waits until there is room for half a batch: small claims cost as much
        as large ones. Nothing is claimed while too many outcomes wait for the store to take them.
        """
        slots = self.served.settings.concurrency
        batch = max(self._settings.batch, slots)
        if self._settler.unsettled >= _UNSETTLED_BATCHES * batch:
            return 0
        ahead = self._settings.prefetch_s * slots / max(self._attempts.average_s, _SHORTEST_S)
        target = min(_BATCHES_AHEAD * batch, slots + int(ahead))
        room = min(batch, target - self._attempts.outstanding)
        enough = min(batch, target) // 2 if target > 2 * slots else 1
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
