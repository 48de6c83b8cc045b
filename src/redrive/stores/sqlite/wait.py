"""Waiting for work: woken at once by this process, within a few milliseconds by another, and by the timer.

Polling `PRAGMA data_version` costs a few microseconds; only when it moved are the queues looked at. It is a
hint, never the truth: what stood in the ring at the last claim does not end it, so a worker that cannot
take it now does not spin.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import apsw

from redrive.stores.sqlite.claim import peek
from redrive.stores.sqlite.forks import Section

_TICK_S = 0.012
_STALE_MS = 1_000


@dataclass(slots=True, eq=False)
class _Waiter:
    queues: frozenset[str]
    future: asyncio.Future[None]
    next_at: int | None

    def wake(self) -> None:
        if not self.future.done():
            self.future.set_result(None)


class Waiting:
    """Everybody in this process who waits on one store."""

    def __init__(self, db: apsw.Connection, section: Section, clock: Callable[[], int]) -> None:
        self._db, self._section, self._clock = db, section, clock
        self._waiters: set[_Waiter] = set()
        self._news: dict[str, int] = {}
        self._seen: dict[str, int] = {}
        self._claimed_at: dict[str, int] = {}
        self._version = self._read_version()
        self._changed = False
        self._tick: asyncio.TimerHandle | None = None

    def claiming(self, queue: str) -> None:
        """A claim is about to look at the queue: whatever was news until now is seen."""
        self._seen[queue] = self._news.get(queue, 0)
        self._claimed_at[queue] = self._read_version()

    def committed(self, due: Iterable[str]) -> None:
        """A commit of this process; work became due in these queues, timers may have changed in any."""
        self._changed = True
        for queue in due:
            self._news[queue] = self._news.get(queue, 0) + 1
        for waiter in self._waiters:
            if not waiter.queues.isdisjoint(due):
                waiter.wake()

    async def wait(self, queues: Sequence[str], timeout_s: float) -> None:
        """The work of `Source.wait`."""
        if not self._take_news(queues):
            await self._wait(queues, timeout_s)
            self._take_news(queues)

    async def _wait(self, queues: Sequence[str], timeout_s: float) -> None:
        version = self._read_version()
        changed = any(self._claimed_at.get(queue) != version for queue in queues)
        next_at = min(self._instants(queues, ring=changed), default=None)
        waiter = _Waiter(frozenset(queues), asyncio.get_running_loop().create_future(), next_at)
        self._waiters.add(waiter)
        self._schedule()
        try:
            async with asyncio.timeout(timeout_s):
                await waiter.future
        except TimeoutError:
            pass
        finally:
            self._waiters.discard(waiter)

    def close(self) -> None:
        """Wake everybody and stop polling."""
        if self._tick is not None:
            self._tick.cancel()
        for waiter in self._waiters:
            waiter.wake()

    def _take_news(self, queues: Iterable[str]) -> bool:
        news = False
        for queue in queues:
            number = self._news.get(queue, 0)
            news = news or self._seen.get(queue, 0) != number
            self._seen[queue] = number
        return news

    def _schedule(self) -> None:
        if self._tick is None:
            self._tick = asyncio.get_running_loop().call_later(_TICK_S, self._poll)

    def _poll(self) -> None:
        self._tick = None
        if not self._waiters:
            return
        try:
            self._look()
        except apsw.Error:
            for waiter in self._waiters:
                waiter.wake()
        self._schedule()

    def _look(self) -> None:
        version = self._read_version()
        changed = self._changed or version != self._version
        self._version, self._changed = version, False
        for waiter in self._waiters:
            if changed:
                waiter.next_at = min(self._instants(waiter.queues), default=None)
            if waiter.next_at is not None and waiter.next_at <= self._clock():
                waiter.wake()

    def _instants(self, queues: Iterable[str], *, ring: bool = True) -> list[int]:
        """When each queue has, or will have, something to do. A suspect that has been due for long is left
        out: the worker knows, and waits until it has nothing else in flight."""
        now = self._clock()
        found: list[int | None] = []
        for queue in queues:
            with self._section:
                seen = peek(self._db, queue, now)
            fresh = seen.suspect_at is not None and seen.suspect_at > now - _STALE_MS
            found += [now if ring and seen.ring else None, seen.wake_at, seen.suspect_at if fresh else None]
        return [at for at in found if at is not None]

    def _read_version(self) -> int:
        with self._section:
            version: int = self._db.execute("pragma data_version").get
        return version
