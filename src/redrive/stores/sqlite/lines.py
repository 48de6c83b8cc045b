"""How many of a queue's messages wait for a later instant, and since when the oldest waits.

Both are counted along an index, message by message and lane by lane. Where few wait that is done with every
question, in its own snapshot. Where many do, it is done in a thread with a connection of its own, and only
for a small share of the time: the event loop never waits for it. Known weakness: what is said of such a queue
may be some seconds old; how many wait, run or are dead is not.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping
from pathlib import Path

import apsw
import msgspec

from redrive.stores.sqlite.connection import DIALECT, open_reader, translated
from redrive.stores.sqlite.forks import Section
from redrive.stores.statements import load_sql

SQL = load_sql(DIALECT, "lanes")

MANY = 20_000
"""From so many waiting messages on, a queue's line is kept."""

_SHARE = 0.02
_KEPT_S = 1.0
_MAPPED_BYTES = 256 * 1024 * 1024


class WaitingLine(msgspec.Struct, frozen=True, gc=False):
    """`later` wait for an instant to come, `tried` of these were tried before."""

    later: int = 0
    tried: int = 0
    oldest_due_at: int | None = None


class KeptLines:
    """The lines of queues in which many wait, each for as long as counting it again would cost too much."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._kept: dict[int, tuple[float, WaitingLine]] = {}

    def known(self) -> Mapping[int, WaitingLine]:
        """Those that were counted a short while ago, by the queue's number."""
        now_s = time.monotonic()
        self._kept = {queue: kept for queue, kept in self._kept.items() if kept[0] > now_s}
        return {queue: line for queue, (_, line) in self._kept.items()}

    async def count(self, queues: Iterable[int], now: int) -> Mapping[int, WaitingLine]:
        """Count these, and keep them."""
        for queue in queues:
            line, cost_s = await asyncio.to_thread(self._count, queue, now)
            self._kept[queue] = (time.monotonic() + max(_KEPT_S, cost_s / _SHARE), line)
        return self.known()

    def _count(self, queue: int, now: int) -> tuple[WaitingLine, float]:
        began_s = time.thread_time()
        with Section(), translated(self._path):
            db = open_reader(self._path)
            try:
                db.execute(f"pragma mmap_size = {_MAPPED_BYTES}")
                line = count_line(db, queue, now)
            finally:
                db.close()
        return line, time.thread_time() - began_s


def count_line(db: apsw.Connection, queue: int, now: int, *, suspects: bool = True) -> WaitingLine:
    """A queue's line now, message by message."""
    later, tried = db.execute(SQL["later"], (queue, now)).get
    if suspects:
        more = db.execute(SQL["later_suspects"], (queue, now)).get
        later, tried = later + more[0], tried + more[1]
    return WaitingLine(later, tried, db.execute(SQL["oldest"], (queue,)).get)
