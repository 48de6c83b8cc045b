"""Queues and lanes as people see them, and the switches they may set."""

from __future__ import annotations

from typing import Any

import apsw

from redrive.core.errors import ConfigurationError
from redrive.core.lanes import Lane, LaneChange, LaneState
from redrive.core.ports import QueueCounts
from redrive.stores.rules.lane_row import read_lane
from redrive.stores.sqlite.connection import DIALECT
from redrive.stores.sqlite.lane_book import SQL as BOOK
from redrive.stores.sqlite.lane_book import LaneBook, find_queue
from redrive.stores.sqlite.ledger import snapshot
from redrive.stores.sqlite.unit import Unit
from redrive.stores.statements import load_sql

SQL = load_sql(DIALECT, "lanes")


def queues(db: apsw.Connection, now: int) -> list[QueueCounts]:
    """The work of `Lanes.queues`."""
    with snapshot(db):
        return [_counts(db, row, now) for row in db.execute(SQL["queues"]).fetchall()]


def _counts(db: apsw.Connection, row: Any, now: int) -> QueueCounts:
    queue, name, state, waiting, suspects, in_flight, done, dead = row
    later, tried = db.execute(SQL["later"], (queue, now)).get if waiting > suspects else (0, 0)
    if suspects:
        more = db.execute(SQL["later_suspects"], (queue, now)).get
        later, tried = later + more[0], tried + more[1]
    return QueueCounts(
        queue=name,
        state=LaneState(state),
        pending=waiting - later,
        scheduled=later - tried,
        retry_scheduled=tried,
        processing=in_flight,
        published=done,
        dlq=dead,
        suspects=suspects,
        oldest_due_at=db.execute(SQL["oldest"], (queue,)).get if waiting else None,
    )


def lanes(db: apsw.Connection, queue: str, after: str | None, limit: int) -> list[Lane]:
    """The work of `Lanes.lanes`."""
    with snapshot(db):
        found = find_queue(db, queue)
        if found is None:
            return []
        rows: list[Any] = db.execute(BOOK["lanes_after"], (found.queue, after or "", limit)).fetchall()
    return [read_lane(row).noun(queue, found.ring.round) for row in rows]


def lane(db: apsw.Connection, queue: str, tenant: str) -> Lane | None:
    """The work of `Lanes.lane`."""
    with snapshot(db):
        found = find_queue(db, queue)
        if found is None:
            return None
        number = db.execute(BOOK["lane_of_tenant"], (found.queue, tenant)).get
        row = db.execute(BOOK["lane"], (number,)).fetchone()
    return None if row is None else read_lane(row).noun(queue, found.ring.round)


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
    return lane.noun(queue, book.queue.ring.round)


def set_queue(unit: Unit, queue: str, state: LaneState) -> None:
    """The write of `Lanes.set_queue`."""
    book = LaneBook.named(unit, queue)
    book.queue.state = state
    book.close()
    if state is LaneState.RUNNING:
        unit.due.add(queue)
