"""Claim: hand out due messages fairly, under one lease.

Lets `core.lanes.take_turns` choose from the lanes at the front of the ring, then moves what was chosen.
Its cost depends on the batch, not on how much waits. Known weakness: finding a suspect passes over those of
lanes that may not run.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from heapq import merge
from itertools import islice

import apsw
import msgspec

from redrive.core.lanes import LaneState, Turn, take_turns
from redrive.core.letters import LetterKey
from redrive.core.limits import reserve
from redrive.core.message import Delivery, Lease
from redrive.core.ports import Claim, Claimed
from redrive.stores.rules.lane_row import LaneRow
from redrive.stores.sqlite.bulk import decode_numbers, encode_list, number_array
from redrive.stores.sqlite.connection import DIALECT
from redrive.stores.sqlite.lane_book import LaneBook, find_queue
from redrive.stores.sqlite.rows import read_deliveries
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
    lease = Lease(queue, token, until_at)
    return read_deliveries(db, decode_numbers(seqs), number, lease, decode_numbers(probes))


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
    if chosen.lanes:
        queue.hand_out(chosen.lanes)
    deliveries = _hand_out(unit, book, asked, chosen)
    book.close()
    return _answer(unit, asked, deliveries, again_at)


def take(unit: Unit, queue: str, keys: Sequence[LetterKey], token: str, lease_s: float) -> list[Delivery]:
    """The write of `Source.take`."""
    repeated = held(unit.db, token)
    found = find_queue(unit.db, queue)
    if repeated is not None or found is None:
        return repeated or []
    book, seqs = LaneBook(unit, found), []
    for key in dict.fromkeys(keys):
        row = unit.db.execute(SQL["waiting"], (key.id, found.queue, key.generation)).fetchone()
        if row is not None and row[0] not in seqs:
            seq, lane, track, crashes = row
            book.lane(lane).take_over(track, suspect=crashes > 0)
            seqs.append(seq)
    if not seqs:
        return []
    lease = Lease(queue, token, unit.now + round(lease_s * 1000))
    number = add_lease(unit, found.queue, lease, seqs)
    unit.db.execute(SQL["take"], (number_array(seqs), number))
    book.close()
    return read_deliveries(unit.db, seqs, number, lease)


def _answer(unit: Unit, asked: Claim, deliveries: Sequence[Delivery], again_at: int | None) -> Claimed:
    seen = peek(unit.db, asked.queue, unit.now)
    next_at = seen.next_at(unit.now)
    if again_at is not None and next_at is not None:
        next_at = max(next_at, again_at)
    return Claimed(tuple(deliveries), seen.has_suspect(unit.now), next_at)


@dataclass(frozen=True, slots=True)
class _Chosen:
    """What a claim hands out, by number and in order, with its lanes; `probes` are those of held lanes."""

    seqs: list[int] = field(default_factory=list)
    lanes: list[int] = field(default_factory=list)
    probes: list[int] = field(default_factory=list)

    def add(self, seq: int, lane: LaneRow) -> None:
        self.seqs.append(seq)
        self.lanes.append(lane.lane)
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
    return (
        _choose_in_turn(unit, book, asked, limit) if asked.fair else _choose_by_due(unit, book, asked, limit)
    )


def _choose_in_turn(unit: Unit, book: LaneBook, asked: Claim, limit: int) -> _Chosen:
    front = -(-limit // asked.quantum)
    lanes = book.read("ring", front + 1)
    whole, lanes = len(lanes) <= front, lanes[:front]
    share = limit if whole and len(lanes) == 1 else asked.quantum
    if whole and len(lanes) > 1:
        share *= -(-limit // sum(asked.quantum * lane.weight for lane in lanes))
    lines = [Line(unit, lane, share * lane.weight) for lane in lanes]
    read_ahead(unit, lines)
    turns = [_turn(lane, asked.quantum, line) for lane, line in zip(lanes, lines, strict=True)]
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


def _choose_by_due(unit: Unit, book: LaneBook, asked: Claim, limit: int) -> _Chosen:
    """The earliest of all lanes that may run: no more lanes than messages can be among them."""
    lanes = book.read("ring_by_due", limit)
    page = max(2, 2 * limit // max(1, len(lanes)))
    room, taken, chosen = _Room(limit, asked.max_bytes), Counter[int](), _Chosen()
    for ready in merge(*(_in_order(unit, lane, page) for lane in lanes)):
        if not room(ready):
            break
        lane = book.lane(ready.lane)
        lane.waiting[ready.track] -= 1
        lane.last_track = ready.track
        taken[ready.lane] += 1
        chosen.add(ready.seq, lane)
    for lane in lanes:
        if taken[lane.lane]:
            lane.serve(taken[lane.lane], unit.now)
        lane.turn = None
    return chosen


def _in_order(unit: Unit, lane: LaneRow, page: int) -> Iterator[Ready]:
    """What a lane may hand out, over all its tracks."""
    sources = [_Source(unit, lane.lane, track, page) for track, count in lane.waiting.items() if count > 0]
    return islice(merge(*(iter(source.pop, None) for source in sources)), lane.room(unit.now))


def _turn(lane: LaneRow, quantum: int, line: Line) -> Turn[Ready]:
    assert lane.turn is not None  # noqa: S101 - it was found in the ring
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
    number = add_lease(unit, book.queue.queue, lease, seqs, probes)
    unit.db.execute(SQL["take"], (number_array(seqs), number))
    return read_deliveries(unit.db, seqs, number, lease, probes)


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


class Ready(msgspec.Struct, frozen=True, order=True, array_like=True, gc=False):
    """One due message, without its content."""

    due_at: int
    seq: int
    size: int
    track: str
    lane: int


_decode_page = msgspec.json.Decoder(list[Ready]).decode


class Line(deque[Ready]):
    """A lane's due messages in hand-out order. Asking whether there is one reads on when it has to.

    Within a track by due_at, then by arrival. Tracks that have due work take turns, beginning after the one
    that was served last, so that none starves another. A track without waiting messages is not looked at.
    """

    def __init__(self, unit: Unit, lane: LaneRow, share: int) -> None:
        super().__init__()
        self._left = lane.room(unit.now)
        self.sources = [_Source(unit, lane.lane, track, share + 1) for track in _tracks(lane)]

    def __bool__(self) -> bool:
        if len(self) == 0 and self.sources:
            self._read_on()
        return len(self) > 0

    def _read_on(self) -> None:
        found = self.sources[0].read() if len(self.sources) == 1 else self._one_of_each()
        if not found:
            self.sources.clear()
        if self._left is not None:
            found = found[: self._left]
            self._left -= len(found)
        self.extend(found)

    def _one_of_each(self) -> list[Ready]:
        heads = [source.pop() for source in self.sources]
        self.sources = [source for source, head in zip(self.sources, heads, strict=True) if head]
        return [head for head in heads if head]


def _tracks(lane: LaneRow) -> list[str]:
    """The tracks that have waiting messages, beginning after the one that was served last."""
    found = [track for track, count in lane.waiting.items() if count > 0]
    if len(found) > 1 and lane.last_track is not None:
        order = list(lane.waiting)
        last = order.index(lane.last_track)
        found.sort(key=lambda track: order.index(track) <= last)
    return found


def read_ahead(unit: Unit, lines: Iterable[Line]) -> None:
    """The first page of every lane, by one statement a track: asking each lane apart costs more."""
    alike: defaultdict[tuple[str, int], dict[int, _Source]] = defaultdict(dict)
    for line in lines:
        for source in line.sources:
            alike[source.track, source.page][source.lane] = source
    for (track, page), sources in alike.items():
        rows = unit.db.execute(SQL["ready_ahead"], (number_array(list(sources)), track, unit.now, page))
        for lane, text in rows:
            sources[lane].keep(sorted(_decode_page(text)))


class _Source:
    """One track of a lane, read in pages."""

    def __init__(self, unit: Unit, lane: int, track: str, page: int) -> None:
        self.lane, self.track, self.page = lane, track, page
        self._unit = unit
        self._after = (_BEFORE_ALL, 0)
        self._ended = False
        self._read: deque[Ready] = deque()

    def keep(self, page: Sequence[Ready]) -> None:
        """A page that was read, in order."""
        self._ended = len(page) < self.page
        self._read.extend(page)
        if page:
            self._after = (page[-1].due_at, page[-1].seq)

    def read(self) -> list[Ready]:
        """What was read ahead, or else the next page; empty at the end."""
        if not self._read and not self._ended:
            place = (self.lane, self.track, self._unit.now, *self._after, self.page)
            self.keep([Ready(*row) for row in self._unit.db.execute(SQL["ready"], place)])
        return self._take()

    def _take(self) -> list[Ready]:
        found = list(self._read)
        self._read.clear()
        return found

    def pop(self) -> Ready | None:
        if not self._read:
            self._read.extend(self.read())
        return self._read.popleft() if self._read else None
