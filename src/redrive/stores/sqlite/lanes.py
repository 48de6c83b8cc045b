"""Queues and lanes as people see them, the switches they may set, and the deleting of a queue: what stands in
its way, a page of what is finished, and then the queue itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import apsw
import msgspec

from redrive.core.errors import ConfigurationError
from redrive.core.lanes import Lane, LaneChange, LaneState
from redrive.core.ports import PAGE
from redrive.core.store import Deletion, QueueCounts
from redrive.stores.rules.lane_row import read_lane
from redrive.stores.sqlite.bulk import encode_list
from redrive.stores.sqlite.connection import DIALECT
from redrive.stores.sqlite.lane_book import SQL as BOOK
from redrive.stores.sqlite.lane_book import LaneBook, find_queue
from redrive.stores.sqlite.ledger import snapshot
from redrive.stores.sqlite.lines import MANY, WaitingLine, count_line
from redrive.stores.sqlite.totals import forget_totals
from redrive.stores.sqlite.unit import Unit
from redrive.stores.sqlite.upkeep import remove_finished
from redrive.stores.statements import load_sql

SQL = load_sql(DIALECT, "lanes")
DELETION = load_sql(DIALECT, "delete_queue")


class _QueueRow(msgspec.Struct, frozen=True, gc=False):
    """A queue as `queues` reads it."""

    queue: int
    name: str
    state: str
    waiting: int
    suspects: int
    in_flight: int
    done: int
    dead: int


def queues(
    db: apsw.Connection, now: int, known: Mapping[int, WaitingLine]
) -> tuple[list[QueueCounts], list[int]]:
    """The work of `Lanes.queues`, and the queues whose line is not known and too long to be counted here."""
    counts: list[QueueCounts] = []
    unknown: list[int] = []
    with snapshot(db):
        rows: list[Any] = db.execute(SQL["queues"]).fetchall()
        for row in (_QueueRow(*values) for values in rows):
            line = WaitingLine()
            if row.queue in known:
                line = known[row.queue]
            elif row.waiting >= MANY:
                unknown.append(row.queue)
            elif row.waiting:
                line = count_line(db, row.queue, now, suspects=row.suspects > 0)
            counts.append(_counts(row, line))
    return counts, unknown


def _counts(row: _QueueRow, line: WaitingLine) -> QueueCounts:
    later = min(line.later, row.waiting)
    tried = min(line.tried, later)
    return QueueCounts(
        queue=row.name,
        state=LaneState(row.state),
        pending=row.waiting - later,
        scheduled=later - tried,
        retry_scheduled=tried,
        processing=row.in_flight,
        published=row.done,
        dlq=row.dead,
        suspects=row.suspects,
        oldest_due_at=line.oldest_due_at if row.waiting else None,
    )


def lanes(db: apsw.Connection, queue: str, after: str | None, limit: int) -> list[Lane]:
    """The work of `Lanes.lanes`."""
    with snapshot(db):
        found = find_queue(db, queue)
        if found is None:
            return []
        rows: list[Any] = db.execute(BOOK["lanes_after"], (found.queue, after or "", limit)).fetchall()
    return [found.noun(read_lane(row)) for row in rows]


def lane(db: apsw.Connection, queue: str, tenant: str) -> Lane | None:
    """The work of `Lanes.lane`."""
    with snapshot(db):
        found = find_queue(db, queue)
        if found is None:
            return None
        number = db.execute(BOOK["lane_of_tenant"], (found.queue, tenant)).get
        row = db.execute(BOOK["lane"], (number,)).fetchone()
    return None if row is None else found.noun(read_lane(row))


def lanes_of(db: apsw.Connection, queue: str, tenants: Sequence[str]) -> list[Lane]:
    """The work of `Lanes.lanes_of`."""
    with snapshot(db):
        found = find_queue(db, queue)
        if found is None:
            return []
        rows: list[Any] = db.execute(BOOK["lanes_by_tenant"], (found.queue, encode_list(tenants))).fetchall()
    return [found.noun(read_lane(row)) for row in rows]


def next_lanes(db: apsw.Connection, queue: str, limit: int) -> list[Lane]:
    """The work of `Lanes.next_lanes`."""
    with snapshot(db):
        found = find_queue(db, queue)
        if found is None:
            return []
        rows: list[Any] = db.execute(BOOK["ring"], (found.queue, max(0, limit))).fetchall()
    return [found.noun(read_lane(row)) for row in rows]


def queue_names(db: apsw.Connection) -> list[str]:
    """The work of `Upkeep.queue_names`."""
    return [name for (name,) in db.execute(SQL["queue_names"])]


def set_lane(unit: Unit, queue: str, tenant: str, change: LaneChange) -> Lane:
    """The write of `Lanes.set_lane`."""
    if change.weight is not None and change.weight < 1:
        raise ConfigurationError(f"weight is {change.weight}: at least 1")
    if change.cap is not None and change.cap < 0:
        raise ConfigurationError(f"cap is {change.cap}: at least 1, or 0 for none")
    book = LaneBook.named(unit, queue)
    lane = book.tenant(tenant)
    if change.state is not None:
        lane.switch(change.state)
    lane.weight = change.weight or lane.weight
    if change.cap is not None:
        lane.cap = change.cap or None
    if change.rate is not None or change.unlimited:
        lane.set_rate(None if change.unlimited else change.rate)
    lane.switched = True
    book.close()
    return book.queue.noun(lane)


def set_queue(unit: Unit, queue: str, state: LaneState) -> None:
    """The write of `Lanes.set_queue`."""
    book = LaneBook.named(unit, queue)
    book.queue.state = state
    book.close()
    if state is LaneState.RUNNING:
        unit.due.add(queue)


def delete_queue(unit: Unit, name: str, limit: int, remember_s: float) -> Deletion:
    """The write of `Lanes.delete_queue`."""
    found = find_queue(unit.db, name)
    page = Deletion(gone=True) if found is None else _delete_page(unit, found.queue, limit, remember_s)
    if page.gone:
        forget_totals(unit, name)
    return page


def _delete_page(unit: Unit, queue: int, limit: int, remember_s: float) -> Deletion:
    waiting, running, dead = unit.db.execute(DELETION["standing"], (queue,)).get
    if waiting or running or dead:
        return Deletion(gone=False, waiting=waiting, running=running, dead=dead)
    ended_at: int | None = unit.db.execute(DELETION["last_ended"], (queue,)).get
    until_at = 0 if ended_at is None else ended_at + round(remember_s * 1000)
    if until_at > unit.now:
        return Deletion(gone=False, remembered_until_at=until_at)
    return _remove_page(unit, queue, min(limit, PAGE))


def _remove_page(unit: Unit, queue: int, limit: int) -> Deletion:
    seqs = [seq for (seq,) in unit.db.execute(DELETION["ended"], (queue, limit))]
    if seqs:
        remove_finished(unit, seqs)
        return Deletion(gone=False, removed=len(seqs))
    unit.db.execute(DELETION["remove_keys"], (queue, limit))
    if unit.db.changes() == limit:
        return Deletion(gone=False)
    for statement in ("remove_leases", "remove_lanes", "remove_queue"):
        unit.db.execute(DELETION[statement], (queue,))
    return Deletion(gone=True)
