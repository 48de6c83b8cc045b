"""Keeps leases alive from a thread of its own, with its own event loop and its own connection.

A handler that blocks the worker's event loop does not lose its lease. When that loop has been stuck
for longer than any handler may run, extending stops, so that another worker can have the messages;
and `on_stuck` is called, once. The keeper is the last thing to stop at shutdown.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

from redrive.core.errors import StoreError, StoreUnavailable
from redrive.core.message import Lease
from redrive.telemetry.door import Telemetry
from redrive.telemetry.events import (
    LeaseLost,
    LeasesExtended,
    LoopFailed,
    LoopLagged,
    StoreBack,
    StoreTrouble,
)

BEAT_S = 0.5
"""How often the worker's loop says that it is alive."""

_LAG_TOLD_S = 1.0
_TRIED_AGAIN_S = 1.0
_TOLD_AGAIN = 20


class Leases(Protocol):
    """What the keeper needs of a store."""

    async def open(self) -> None: ...

    async def close(self) -> None: ...

    async def extend(self, leases: Sequence[Lease], lease_s: float) -> AbstractSet[str]: ...


@dataclass(slots=True)
class _Held:
    lease: Lease
    count: int
    safe_until_s: float
    settling: int = 0


class Keeper:
    """Holds the leases of one worker. `hold`, `settled` and `beat` are called from the worker's loop."""

    def __init__(
        self,
        twin: Callable[[], Leases],
        telemetry: Telemetry,
        *,
        lease_s: float,
        stuck_s: float,
        on_lost: Callable[[str], None],
        on_stuck: Callable[[], None],
    ) -> None:
        self._twin = twin
        self._telemetry = telemetry
        self._lease_s = lease_s
        self._stuck_s = stuck_s
        self._on_lost = on_lost
        self._on_stuck = on_stuck
        self._held: dict[str, _Held] = {}
        self._lock = threading.Lock()
        self._stopping = False
        self._wake = threading.Event()
        self._beat_s = time.monotonic()
        self._worst_lag_s = 0.0
        self._stuck_told = False
        self._thread: threading.Thread | None = None
        self._home: asyncio.AbstractEventLoop | None = None

    def start(self) -> None:
        """Begin extending; leases are reported lost to the loop that runs now."""
        self._home = asyncio.get_running_loop()
        self._beat_s = time.monotonic()
        self._thread = threading.Thread(target=self._main, name="redrive-leases", daemon=True)
        self._thread.start()

    async def stop(self) -> None:
        """End the thread; what is still held then lapses by itself."""
        self._stopping = True
        self._wake.set()
        if self._thread is not None:
            await asyncio.to_thread(self._thread.join)

    def hold(self, lease: Lease, count: int, left_s: float) -> None:
        """Extend a lease that has `left_s` left until `count` messages of it are settled.

        A claim that was answered only when it was repeated has less left than usual: it is extended at once.
        """
        with self._lock:
            self._held[lease.token] = _Held(lease, count, time.monotonic() + min(left_s, self._lease_s))
        if left_s < self._lease_s / 2:
            self._wake.set()

    def settling(self, token: str, count: int) -> None:
        """Messages of a lease are being settled: when they are all it held, its end is no loss."""
        with self._lock:
            if (held := self._held.get(token)) is not None:
                held.settling += count

    def settled(self, token: str, count: int) -> None:
        """Messages of a lease are settled."""
        with self._lock:
            held = self._held.get(token)
            if held is None:
                return
            held.count -= count
            held.settling -= count
            if held.count <= 0:
                del self._held[token]

    def holds(self, token: str) -> bool:
        """Whether this lease is still ours, as far as we know."""
        with self._lock:
            held = self._held.get(token)
            return held is not None and time.monotonic() < held.safe_until_s

    def beat(self) -> None:
        """The worker's loop is alive."""
        now_s = time.monotonic()
        lag_s = now_s - self._beat_s - BEAT_S
        self._beat_s = now_s
        self._worst_lag_s = max(self._worst_lag_s, lag_s)
        if lag_s > _LAG_TOLD_S:
            self._telemetry.emit(LoopLagged(lag_s))

    def take_lag_s(self) -> float:
        """The longest that the worker's loop was late since this was last asked."""
        worst_s, self._worst_lag_s = self._worst_lag_s, 0.0
        return worst_s

    def _main(self) -> None:
        asyncio.run(self._keep())

    async def _keep(self) -> None:
        """Extend until stopped. Whatever goes wrong, the next try follows soon, on a store opened anew."""
        store: Leases | None = None
        pause_s, failures = 0.0, 0
        while not await self._stops_within(pause_s):
            pause_s = self._lease_s / 3
            if self._is_stuck():
                continue
            try:
                if store is None:
                    store = await self._opened()
                await self._extend(store)
            except Exception as error:  # noqa: BLE001 - nothing may end the thread that keeps the leases
                failures += 1
                self._tell(error, failures)
                if not isinstance(error, StoreUnavailable):
                    await _close(store)
                    store = None
                pause_s = min(_TRIED_AGAIN_S, pause_s)
            else:
                if failures:
                    self._telemetry.emit(StoreBack("extend", failures))
                failures = 0
        await _close(store)

    async def _opened(self) -> Leases:
        store = self._twin()
        await store.open()
        return store

    def _tell(self, error: Exception, failures: int) -> None:
        if failures == 1 or failures % _TOLD_AGAIN == 0:
            known = isinstance(error, StoreError)
            told = StoreTrouble("extend", str(error), failures) if known else LoopFailed("extend", error)
            self._telemetry.emit(told)

    async def _stops_within(self, pause_s: float) -> bool:
        await asyncio.to_thread(self._wake.wait, pause_s)
        self._wake.clear()
        return self._stopping

    def _is_stuck(self) -> bool:
        stuck = time.monotonic() - self._beat_s > self._stuck_s
        if stuck and not self._stuck_told:
            self._on_stuck()
        self._stuck_told = stuck
        return stuck

    async def _extend(self, store: Leases) -> None:
        with self._lock:
            leases = [held.lease for held in self._held.values()]
        if not leases:
            return
        safe_until_s = time.monotonic() + self._lease_s
        lost = await store.extend(leases, self._lease_s)
        for lease in leases:
            if lease.token in lost:
                continue
            with self._lock:
                if (held := self._held.get(lease.token)) is not None:
                    held.safe_until_s = safe_until_s
        self._telemetry.emit(LeasesExtended(len(leases) - len(lost)))
        self._give_up(lost)

    def _give_up(self, lost: Iterable[str]) -> None:
        for token in lost:
            with self._lock:
                held = self._held.get(token)
                if held is None or held.settling >= held.count:
                    continue
                del self._held[token]
            if self._home is not None:
                self._telemetry.emit(LeaseLost(held.lease.queue, token))
                self._home.call_soon_threadsafe(self._on_lost, token)


async def _close(store: Leases | None) -> None:
    """Let go of a store, also of one that no longer works."""
    if store is not None:
        with suppress(Exception):
            await store.close()
