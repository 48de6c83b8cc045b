"""What of a lane is due, read a little at a time and in the order in which the lane hands it out.

Within a track by due_at, then by arrival. Tracks that have due work take turns, beginning after the one that
was served last, so that none starves another. A track without waiting messages is not looked at.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from redrive.stores.sqlite.connection import DIALECT
from redrive.stores.sqlite.lane_row import LaneRow
from redrive.stores.sqlite.writer import Step
from redrive.stores.statements import load_sql

SQL = load_sql(DIALECT, "claim")["ready"]
_BEFORE_ALL = -(1 << 62)


class Ready(NamedTuple):
    """One due message, without its content."""

    due_at: int
    seq: int
    size: int
    track: str
    lane: int


class Line(deque[Ready]):
    """A lane's due messages. Asking whether there is one reads on when it has to."""

    def __init__(self, step: Step, lane: LaneRow, share: int) -> None:
        super().__init__()
        self._left = lane.room(step.now)
        names = list(lane.waiting)
        after = names.index(lane.last_track) + 1 if lane.last_track in names else 0
        self._sources = [
            _Source(step, lane.lane, name, share + 1)
            for name in names[after:] + names[:after]
            if lane.waiting[name] > 0
        ]

    def __bool__(self) -> bool:
        if len(self) == 0 and self._sources:
            self._read_on()
        return len(self) > 0

    def _read_on(self) -> None:
        found = self._sources[0].read() if len(self._sources) == 1 else self._one_of_each()
        if not found:
            self._sources.clear()
        if self._left is not None:
            found = found[: self._left]
            self._left -= len(found)
        self.extend(found)

    def _one_of_each(self) -> list[Ready]:
        heads = [source.pop() for source in self._sources]
        self._sources = [source for source, head in zip(self._sources, heads, strict=True) if head]
        return [head for head in heads if head]


class _Source:
    """One track of a lane, read in pages."""

    def __init__(self, step: Step, lane: int, track: str, page: int) -> None:
        self._step, self._lane, self._track, self._page = step, lane, track, page
        self._after = (_BEFORE_ALL, 0)
        self._ended = False
        self._read: deque[Ready] = deque()

    def read(self) -> list[Ready]:
        """What was read ahead, or else the next page; empty at the end."""
        if self._read:
            found, self._read = list(self._read), deque()
            return found
        if self._ended:
            return []
        rows = self._step.db.execute(
            SQL, (self._lane, self._track, self._step.now, *self._after, self._page)
        ).fetchall()
        self._ended = len(rows) < self._page
        found = [Ready._make(row) for row in rows]
        if found:
            self._after = found[-1][:2]
        return found

    def pop(self) -> Ready | None:
        if not self._read:
            self._read.extend(self.read())
        return self._read.popleft() if self._read else None
