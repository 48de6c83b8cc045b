"""The lanes of one queue during one transaction: read once, changed in memory, written once.

Every verb changes lanes through a LaneBook, so where a lane stands (ring, timer, parked) is decided in one
place, by `rules.lane_row`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import takewhile

import apsw
import msgspec
from msgspec.structs import replace

from redrive.core.lanes import Lane, LaneState, Ring
from redrive.core.limits import Window
from redrive.stores.rules.lane_row import LaneRow, join_ring, place_lane, read_lane
from redrive.stores.sqlite.connection import DIALECT
from redrive.stores.sqlite.unit import Unit
from redrive.stores.statements import load_sql

SQL = load_sql(DIALECT, "lane_book")

_encode = msgspec.json.Encoder().encode


@dataclass(slots=True)
class QueueRow:
    """A queue's row; `ring` and `window` are changed in place or replaced.

    `last_lane` was served last, with so many messages `in_a_row`: whatever their turns and claims were.
    """

    queue: int
    name: str
    state: LaneState
    ring: Ring
    window: Window
    last_lane: int | None
    in_a_row: int

    def hand_out(self, lanes: Sequence[int]) -> None:
        """Messages of these lanes are handed out, in this order."""
        last = lanes[-1]
        row = sum(1 for _ in takewhile(lambda lane: lane == last, reversed(lanes)))
        goes_on = row == len(lanes) and last == self.last_lane
        self.last_lane, self.in_a_row = last, row + (self.in_a_row if goes_on else 0)

    def noun(self, lane: LaneRow) -> Lane:
        """A lane of this queue as people see it."""
        in_a_row = self.in_a_row if lane.lane == self.last_lane else 0
        return replace(lane.noun(self.name, self.ring.round), consecutive=in_a_row)


def find_queue(db: apsw.Connection, name: str) -> QueueRow | None:
    """The queue of that name."""
    return _queue_row(db.execute(SQL["queue"], (name,)).fetchone())


def _queue_row(row: tuple[int, str, str, int, int, int, int, int, int | None, int] | None) -> QueueRow | None:
    if row is None:
        return None
    queue, name, state, next_turn, round_, round_ends, began_at, used, last_lane, in_a_row = row
    ring, window = Ring(next_turn, round_, round_ends), Window(began_at, used)
    return QueueRow(queue, name, LaneState(state), ring, window, last_lane, in_a_row)


class LaneBook:
    """The lanes of one queue that one write reads and changes. `close` writes them."""

    def __init__(self, unit: Unit, queue: QueueRow) -> None:
        self.queue = queue
        self._unit = unit
        self._lanes: dict[int, LaneRow] = {}
        self._by_tenant: dict[str, LaneRow] = {}

    @classmethod
    def named(cls, unit: Unit, name: str) -> LaneBook:
        """The book of a queue that is made when it does not exist."""
        found = find_queue(unit.db, name)
        if found is None:
            unit.db.execute(SQL["create_queue"], (name,))
            found = find_queue(unit.db, name)
        assert found is not None  # noqa: S101 - it was made in this transaction
        return cls(unit, found)

    @classmethod
    def numbered(cls, unit: Unit, queue: int) -> LaneBook:
        """The book of a queue that a message belongs to."""
        found = _queue_row(unit.db.execute(SQL["queue_by_number"], (queue,)).fetchone())
        assert found is not None  # noqa: S101 - queues are never removed
        return cls(unit, found)

    def lane(self, number: int) -> LaneRow:
        """A lane that exists."""
        found = self._lanes.get(number)
        return found or self._keep(read_lane(self._unit.db.execute(SQL["lane"], (number,)).fetchone()))

    def tenant(self, tenant: str) -> LaneRow:
        """A tenant's lane, made when it does not exist."""
        found = self._by_tenant.get(tenant)
        if found is not None:
            return found
        db = self._unit.db
        number = db.execute(SQL["lane_of_tenant"], (self.queue.queue, tenant)).get
        if number is None:
            db.execute(SQL["create_lane"], (self.queue.queue, tenant))
            number = db.last_insert_rowid()
        return self.lane(number)

    def read_ahead(self, *, lanes: Iterable[int] = (), tenants: Iterable[str] = ()) -> None:
        """Read many lanes by one statement, where asking for each would cost more than the rest."""
        for statement, keys in (("lanes_by_number", set(lanes)), ("lanes_by_tenant", set(tenants))):
            if len(keys) > 1:
                self.read(statement, _encode(list(keys)).decode())

    def read(self, statement: str, *arguments: int | str) -> list[LaneRow]:
        """The lanes that a statement finds; they are in the book from now on."""
        rows = self._unit.db.execute(SQL[statement], (self.queue.queue, *arguments))
        return [self._lanes.get(row[0]) or self._keep(read_lane(row)) for row in rows]

    def join_ring(self, lane: LaneRow) -> None:
        """To the ring's tail, with a whole turn before it."""
        join_ring(lane, self.queue.ring)
        self._unit.due.add(self.queue.name)

    def next_due_at(self, lane: LaneRow) -> int | None:
        """The earliest waiting message of a lane, found in the index."""
        found = [
            self._unit.db.execute(SQL["next_due"], (lane.lane, track)).get
            for track, count in lane.waiting.items()
            if count > 0
        ]
        return min((due_at for due_at in found if due_at is not None), default=None)

    def close(self) -> None:
        """Place every lane that was read, and write what changed."""
        for lane in self._lanes.values():
            if place_lane(lane, self.queue.ring, self._unit.now, self.next_due_at):
                self._unit.due.add(self.queue.name)
        self._write_switches()
        self._write_windows()
        self._write_counters()
        ring, window = self.queue.ring, self.queue.window
        self._unit.db.execute(
            SQL["write_queue"],
            (
                self.queue.state,
                ring.next_turn,
                ring.round,
                ring.round_ends,
                window.began_at,
                window.used,
                self.queue.last_lane,
                self.queue.in_a_row,
                self.queue.queue,
            ),
        )

    def write_places(self) -> None:
        """Write where lanes stand, so that the ring can be read again."""
        moved = [lane for lane in self._lanes.values() if lane.has_moved()]
        for lane in moved:
            lane.was_at = (lane.turn, lane.wake_at)
        self._unit.db.executemany(SQL["write_place"], [(*lane.was_at, lane.lane) for lane in moved])

    def _write_switches(self) -> None:
        switched = [lane for lane in self._lanes.values() if lane.switched]
        for lane in switched:
            if lane.suspects and lane.may_run():
                self._unit.due.add(self.queue.name)
        rows = [
            (
                lane.state,
                lane.weight,
                lane.cap,
                lane.probe_at,
                lane.held_reason,
                lane.rate and lane.rate.count,
                lane.rate and lane.rate.period_s,
                lane.lane,
            )
            for lane in switched
        ]
        self._unit.db.executemany(SQL["write_switches"], rows)

    def _write_windows(self) -> None:
        rows = [
            (lane.window.began_at, lane.window.used, lane.free_at(self._unit.now), lane.lane)
            for lane in self._lanes.values()
            if lane.rated
        ]
        self._unit.db.executemany(SQL["write_window"], rows)

    def _write_counters(self) -> None:
        """All counters, and with them where a lane stands that has moved."""
        stayed, moved = [], []
        for lane in self._lanes.values():
            if lane.has_moved():
                moved.append((lane.turn, lane.wake_at, *_counters(lane)))
            else:
                stayed.append(_counters(lane))
        self._unit.db.executemany(SQL["write_counters"], stayed)
        self._unit.db.executemany(SQL["write_moved"], moved)

    def _keep(self, lane: LaneRow) -> LaneRow:
        self._lanes[lane.lane] = self._by_tenant[lane.tenant] = lane
        return lane


def _counters(lane: LaneRow) -> tuple[int | str | None, ...]:
    return (
        *lane.waiting.values(),
        lane.suspects,
        lane.in_flight,
        lane.dead,
        lane.done,
        lane.served,
        lane.last_served_at,
        lane.last_round,
        lane.consecutive,
        lane.last_track,
        lane.lane,
    )
