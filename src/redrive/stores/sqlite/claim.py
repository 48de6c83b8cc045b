"""Claim: hand out due messages fairly, under one lease.

Lets `core.lanes.take_turns` choose from the lanes at the front of the ring, then moves what was chosen.
Its cost depends on the batch, not on how much waits. Known weakness: finding a suspect passes over those of
lanes that may not run.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import starmap
from typing import NamedTuple

import apsw

from redrive.core.lanes import LaneState, Turn, take_turns
from redrive.core.limits import reserve
from redrive.core.message import Delivery, Lease
from redrive.core.ports import Claim, Claimed
from redrive.stores.rules.lane_row import LaneRow
from redrive.stores.sqlite.connection import DIALECT
from redrive.stores.sqlite.lane_book import LaneBook, find_queue
from redrive.stores.sqlite.rows import ClaimedRow, decode_numbers, encode_list, read_deliveries
from redrive.stores.sqlite.unit import Unit
from redrive.stores.statements import load_sql

SQL = load_sql(DIALECT, "claim")

_WAKE = 200
_BEFORE_ALL = -(1 << 62)


@dataclass(frozen=True, slots=True)
class Peek:
    """What a queue has, without writing: a lane in the ring, the next timer, the next suspect."""

    ring: bool = False
    wake_at: int | None = None
    suspect_at: int | None = None

    def has_work(self, now: int) -> bool:
        return self.ring or (self.wake_at is not None and self.wake_at <= now)

    def has_suspect(self, now: int) -> bool:
        return self.suspect_at is not None and self.suspect_at <= now

    def next_at(self, now: int) -> int | None:
        """When more may be due; a suspect that is due already is told apart."""
        if self.has_work(now):
            return now
        later = self.suspect_at if self.suspect_at is not None and self.suspect_at > now else None
        return min((at for at in (self.wake_at, later) if at is not None), default=None)


def peek(db: apsw.Connection, queue: str, now: int) -> Peek:
    """What a claim would find; nothing in a queue that is paused or unknown."""
    row = db.execute(SQL["peek"], (queue, now)).fetchone()
    if row is None:
        return Peek()
    state, turn, wake_at, suspect_at = row
    return Peek(turn is not None, wake_at, suspect_at) if state == LaneState.RUNNING else Peek()


def holds(db: apsw.Connection, token: str) -> bool:
    """Whether a token has a lease: the claim is a repeat."""
    return db.execute(SQL["lease"], (token,)).get is not None


def held(db: apsw.Connection, token: str) -> list[Delivery] | None:
    """What a token still holds; None when it is not known."""
    row = db.execute(SQL["lease"], (token,)).fetchone()
    if row is None:
        return None
    number, until_at, seqs, probes, queue = row
    rows = [ClaimedRow(*row) for row in db.execute(SQL["held"], (seqs, number))]
    tenants = {lane: db.execute(SQL["tenant"], (lane,)).get for lane in {row.lane for row in rows}}
    return read_deliveries(db, rows, Lease(queue, token, until_at), tenants, decode_numbers(probes))


def claim(unit: Unit, asked: Claim) -> Claimed:
    """The write of `Source.claim`."""
    repeated = held(unit.db, asked.token)
    if repeated is not None:
        return _answer(unit, asked, repeated, None)
    queue = find_queue(unit.db, asked.queue)
    if queue is None or queue.state is not LaneState.RUNNING:
        return Claimed()
    book = LaneBook(unit, queue)
    limit, again_at = asked.limit, None
    if asked.rate is not None:
        reserved = reserve(asked.rate, queue.window, unit.now, asked.limit)
        limit, again_at = reserved.granted, reserved.next_at
    chosen = _choose_suspect(unit, book, limit) if asked.alone else _choose(unit, book, asked, limit)
    if asked.rate is not None:
        reserved = reserve(asked.rate, queue.window, unit.now, len(chosen.seqs))
        queue.window, again_at = reserved.window, reserved.next_at
    deliveries = _hand_out(unit, book, asked, chosen)
    book.close()
    return _answer(unit, asked, deliveries, again_at)


def _answer(unit: Unit, asked: Claim, deliveries: Sequence[Delivery], again_at: int | None) -> Claimed:
    seen = peek(unit.db, asked.queue, unit.now)
    next_at = seen.next_at(unit.now)
    if again_at is not None and next_at is not None:
        next_at = max(next_at, again_at)
    return Claimed(tuple(deliveries), seen.has_suspect(unit.now), next_at)


@dataclass(frozen=True, slots=True)
class _Chosen:
    """What a claim hands out, by number and in order; `probes` are those of held lanes."""

    seqs: list[int] = field(default_factory=list)
    probes: list[int] = field(default_factory=list)

    def add(self, seq: int, lane: LaneRow) -> None:
        self.seqs.append(seq)
        if lane.state is LaneState.HELD:
            self.probes.append(seq)


def _choose_suspect(unit: Unit, book: LaneBook, limit: int) -> _Chosen:
    chosen = _Chosen()
    row = unit.db.execute(SQL["next_suspect"], (book.queue.queue, unit.now)).fetchone()
    if limit > 0 and row is not None:
        seq, number, due_at = row
        if due_at <= unit.now:
            lane = book.lane(number)
            lane.suspects -= 1
            lane.serve(1, unit.now)
            chosen.add(seq, lane)
    return chosen


def _choose(unit: Unit, book: LaneBook, asked: Claim, limit: int) -> _Chosen:
    """Due messages in hand-out order; the lanes they come from are changed to what they are afterwards."""
    for lane in book.read("timers", unit.now, _WAKE):
        book.join_ring(lane)
    book.write_places()
    front = -(-limit // asked.quantum)
    lanes = book.read("ring", front + 1)
    whole, lanes = len(lanes) <= front, lanes[:front]
    share = limit if whole and len(lanes) == 1 else asked.quantum
    if whole and len(lanes) > 1:
        share *= -(-limit // sum(asked.quantum * lane.weight for lane in lanes))
    turns = [_turn(unit, lane, asked.quantum, share) for lane in lanes]
    taken = take_turns(turns, book.queue.ring, _Room(limit, asked.max_bytes), whole=whole)
    chosen = _Chosen()
    for ready in taken:
        lane = book.lane(ready.lane)
        lane.waiting[ready.track] -= 1
        lane.last_track = ready.track
        chosen.add(ready.seq, lane)
    for turn, lane in zip(turns, lanes, strict=True):
        _end_turn(unit, lane, turn)
    return chosen


def _turn(unit: Unit, lane: LaneRow, quantum: int, share: int) -> Turn[Ready]:
    assert lane.turn is not None  # noqa: S101 - it was found in the ring
    line = Line(unit, lane, share * lane.weight)
    return Turn(lane.lane, lane.turn, quantum * lane.weight, line, consecutive=lane.consecutive)


def _end_turn(unit: Unit, lane: LaneRow, turn: Turn[Ready]) -> None:
    lane.turn, lane.consecutive = turn.number, turn.consecutive
    if turn.served_round is not None:
        lane.last_round = turn.served_round
        lane.serve(turn.taken, unit.now)
    if not turn.ready:
        lane.turn = None


def _hand_out(unit: Unit, book: LaneBook, asked: Claim, chosen: _Chosen) -> list[Delivery]:
    seqs, probes = chosen.seqs, chosen.probes
    if not seqs:
        return []
    lease = Lease(asked.queue, asked.token, unit.now + round(asked.lease_s * 1000))
    numbers = encode_list(seqs)
    number = add_lease(unit, book.queue.queue, lease, seqs, probes)
    taken = starmap(ClaimedRow, unit.db.execute(SQL["take"], (numbers, number)))
    rows = {row.seq: row for row in taken}
    return read_deliveries(unit.db, [rows[seq] for seq in seqs], lease, book.tenants(), probes)


def add_lease(unit: Unit, queue: int, lease: Lease, seqs: Sequence[int], probes: Sequence[int] = ()) -> int:
    """One lease row for a whole batch; its number goes into each message."""
    numbers = encode_list(seqs), encode_list(probes) if probes else None
    ends_ms = unit.at.up_ms + lease.until_at - unit.now
    unit.db.execute(
        SQL["add_lease"], (lease.token, queue, lease.until_at, len(seqs), *numbers, unit.at.boot, ends_ms)
    )
    return unit.db.last_insert_rowid()


class _Room:
    """How much more fits: a number of messages, and bytes, of which one message may have too many."""

    def __init__(self, limit: int, max_bytes: int) -> None:
        self._messages, self._bytes, self._first = limit, max_bytes, True

    def __call__(self, ready: Ready) -> bool:
        if self._messages <= 0 or (ready.size > self._bytes and not self._first):
            return False
        self._messages -= 1
        self._bytes -= ready.size
        self._first = False
        return True


class Ready(NamedTuple):
    """One due message, without its content."""

    due_at: int
    seq: int
    size: int
    track: str
    lane: int


class Line(deque[Ready]):
    """A lane's due messages in hand-out order. Asking whether there is one reads on when it has to.

    Within a track by due_at, then by arrival. Tracks that have due work take turns, beginning after the one
    that was served last, so that none starves another. A track without waiting messages is not looked at.
    """

    def __init__(self, unit: Unit, lane: LaneRow, share: int) -> None:
        super().__init__()
        self._left = lane.room(unit.now)
        names = list(lane.waiting)
        after = names.index(lane.last_track) + 1 if lane.last_track in names else 0
        self._sources = [
            _Source(unit, lane.lane, name, share + 1)
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

    def __init__(self, unit: Unit, lane: int, track: str, page: int) -> None:
        self._unit, self._lane, self._track, self._page = unit, lane, track, page
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
        rows = self._unit.db.execute(
            SQL["ready"], (self._lane, self._track, self._unit.now, *self._after, self._page)
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
