"""Claim: hand out due messages fairly, under one lease.

Lets `core.lanes.take_turns` choose from the lanes at the front of the ring, then moves what was chosen.
Its cost depends on the batch, not on how much waits. Known weakness: finding a suspect passes over those of
lanes that may not run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import apsw

from redrive.core.lanes import LaneState, Turn, take_turns
from redrive.core.limits import reserve
from redrive.core.message import Delivery, Lease
from redrive.core.ports import Claim, Claimed
from redrive.stores.sqlite.connection import DIALECT
from redrive.stores.sqlite.lane_row import LaneRow
from redrive.stores.sqlite.lanes import LaneBook, find_queue
from redrive.stores.sqlite.ready import Line, Ready
from redrive.stores.sqlite.rows import decode_numbers, encode_list, read_deliveries
from redrive.stores.sqlite.writer import Step
from redrive.stores.statements import load_sql

SQL = load_sql(DIALECT, "claim")

_WAKE = 200


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
    if row is None or row[0] != LaneState.RUNNING:
        return Peek()
    return Peek(row[1] is not None, row[2], row[3])


def holds(db: apsw.Connection, token: str) -> bool:
    """Whether a token has a lease: the claim is a repeat."""
    return db.execute(SQL["lease"], (token,)).get is not None


def held(db: apsw.Connection, token: str) -> list[Delivery] | None:
    """What a token still holds; None when it is not known."""
    row = db.execute(SQL["lease"], (token,)).fetchone()
    if row is None:
        return None
    number, until_at, seqs, probes, queue = row
    rows: list[Any] = db.execute(SQL["held"], (seqs, number)).fetchall()
    tenants = {row[2]: db.execute(SQL["tenant"], (row[2],)).get for row in rows}
    return read_deliveries(db, rows, Lease(queue, token, until_at), tenants, decode_numbers(probes))


def claim(step: Step, asked: Claim) -> Claimed:
    """The step of `Source.claim`."""
    repeated = held(step.db, asked.token)
    if repeated is not None:
        return _answer(step, asked, repeated, None)
    queue = find_queue(step.db, asked.queue)
    if queue is None or queue.state is not LaneState.RUNNING:
        return Claimed()
    book = LaneBook(step, queue)
    limit, again_at = asked.limit, None
    if asked.rate is not None:
        reserved = reserve(asked.rate, queue.window, step.now, asked.limit)
        limit, again_at = reserved.granted, reserved.next_at
    chosen = _choose_suspect(step, book, limit) if asked.alone else _choose(step, book, asked, limit)
    if asked.rate is not None:
        reserved = reserve(asked.rate, queue.window, step.now, len(chosen.seqs))
        queue.window, again_at = reserved.window, reserved.next_at
    deliveries = _hand_out(step, book, asked, chosen)
    book.close()
    return _answer(step, asked, deliveries, again_at)


def _answer(step: Step, asked: Claim, deliveries: Sequence[Delivery], again_at: int | None) -> Claimed:
    seen = peek(step.db, asked.queue, step.now)
    next_at = seen.next_at(step.now)
    if again_at is not None and next_at is not None:
        next_at = max(next_at, again_at)
    return Claimed(tuple(deliveries), seen.has_suspect(step.now), next_at)


@dataclass(frozen=True, slots=True)
class _Chosen:
    """What a claim hands out, by number and in order; `probes` are those of held lanes."""

    seqs: list[int] = field(default_factory=list)
    probes: list[int] = field(default_factory=list)

    def add(self, seq: int, lane: LaneRow) -> None:
        self.seqs.append(seq)
        if lane.state is LaneState.HELD:
            self.probes.append(seq)


def _choose_suspect(step: Step, book: LaneBook, limit: int) -> _Chosen:
    chosen = _Chosen()
    row = step.db.execute(SQL["next_suspect"], (book.queue.queue, step.now)).fetchone()
    if limit > 0 and row is not None and row[2] <= step.now:
        lane = book.lane(row[1])
        lane.suspects -= 1
        lane.serve(1, step.now)
        chosen.add(row[0], lane)
    return chosen


def _choose(step: Step, book: LaneBook, asked: Claim, limit: int) -> _Chosen:
    """Due messages in hand-out order; the lanes they come from are changed to what they are afterwards."""
    for lane in book.read("timers", step.now, _WAKE):
        book.join_ring(lane)
    book.write_places()
    front = -(-limit // asked.quantum)
    lanes = book.read("ring", front + 1)
    whole, lanes = len(lanes) <= front, lanes[:front]
    share = limit if whole and len(lanes) == 1 else asked.quantum
    if whole and len(lanes) > 1:
        share *= -(-limit // sum(asked.quantum * lane.weight for lane in lanes))
    turns = [_turn(step, lane, asked.quantum, share) for lane in lanes]
    taken = take_turns(turns, book.queue.ring, _Room(limit, asked.max_bytes), whole=whole)
    chosen = _Chosen()
    for ready in taken:
        lane = book.lane(ready.lane)
        lane.waiting[ready.track] -= 1
        lane.last_track = ready.track
        chosen.add(ready.seq, lane)
    for turn, lane in zip(turns, lanes, strict=True):
        _end_turn(step, lane, turn)
    return chosen


def _turn(step: Step, lane: LaneRow, quantum: int, share: int) -> Turn[Ready]:
    assert lane.turn is not None  # noqa: S101 - it was found in the ring
    line = Line(step, lane, share * lane.weight)
    return Turn(lane.lane, lane.turn, quantum * lane.weight, line, consecutive=lane.consecutive)


def _end_turn(step: Step, lane: LaneRow, turn: Turn[Ready]) -> None:
    lane.turn, lane.consecutive = turn.number, turn.consecutive
    if turn.served_round is not None:
        lane.last_round = turn.served_round
        lane.serve(turn.taken, step.now)
    if not turn.ready:
        lane.turn = None


def _hand_out(step: Step, book: LaneBook, asked: Claim, chosen: _Chosen) -> list[Delivery]:
    seqs, probes = chosen.seqs, chosen.probes
    if not seqs:
        return []
    lease = Lease(asked.queue, asked.token, step.now + round(asked.lease_s * 1000))
    numbers = encode_list(seqs)
    number = add_lease(step, book.queue.queue, lease, seqs, probes)
    rows = {row[0]: row for row in step.db.execute(SQL["take"], (numbers, number))}
    return read_deliveries(step.db, [rows[seq] for seq in seqs], lease, book.tenants(), probes)


def add_lease(step: Step, queue: int, lease: Lease, seqs: Sequence[int], probes: Sequence[int] = ()) -> int:
    """One lease row for a whole batch; its number goes into each message."""
    numbers = encode_list(seqs), encode_list(probes) if probes else None
    ends_ms = step.at.up_ms + lease.until_at - step.now
    step.db.execute(
        SQL["add_lease"], (lease.token, queue, lease.until_at, len(seqs), *numbers, step.at.boot, ends_ms)
    )
    return step.db.last_insert_rowid()


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
