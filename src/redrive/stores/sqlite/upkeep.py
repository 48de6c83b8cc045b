"""Reclaim and cleanup: what any process does for the file, all the time, in pages.

Reclaim takes over what nobody holds any more; deciding its fate is not its business. Cleanup removes finished
records, what people discarded long ago and ended dedupe keys, and gives pages back to the disk when much of
the file is empty.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import apsw

from redrive.core.message import Delivery, Lease
from redrive.core.ports import PAGE, Cleanup
from redrive.stores.sqlite.bulk import number_array
from redrive.stores.sqlite.claim import add_lease, held
from redrive.stores.sqlite.clock import Instant
from redrive.stores.sqlite.connection import DIALECT
from redrive.stores.sqlite.content import close_children, remove_failures
from redrive.stores.sqlite.lane_book import LaneBook, find_queue
from redrive.stores.sqlite.rows import read_deliveries
from redrive.stores.sqlite.tallies import remove_tallies
from redrive.stores.sqlite.totals import remove_totals
from redrive.stores.sqlite.unit import Unit
from redrive.stores.statements import load_sql

SQL = load_sql(DIALECT, "upkeep")
CLAIM = load_sql(DIALECT, "claim")
SETTLE = load_sql(DIALECT, "settle")

_EMPTY_PAGES = 4_096
_PAGES_BACK = 256


def overdue(db: apsw.Connection, queue: str, at: Instant) -> bool:
    """Whether reclaim would find something."""
    return bool(db.execute(SQL["overdue"], (queue, at.now, at.boot, at.up_ms)).get)


def reclaim(unit: Unit, queue: str, token: str, lease_s: float, limit: int) -> list[Delivery]:
    """The write of `Upkeep.reclaim`."""
    repeated = held(unit.db, token)
    if repeated is not None:
        return repeated
    found = find_queue(unit.db, queue)
    if found is None:
        return []
    book = LaneBook(unit, found)
    limit = min(limit, PAGE)
    lost = _let_go_lost(unit, found.queue, limit)
    expired = _expired(unit, book, limit - len(lost))
    if not lost and not expired:
        return []
    lease = Lease(queue, token, unit.now + round(lease_s * 1000))
    number = add_lease(unit, found.queue, lease, lost + expired)
    for statement, seqs in (("take_lost", lost), ("take_expired", expired)):
        if seqs:
            unit.db.execute(CLAIM[statement], (number_array(seqs), number))
    book.close()
    return read_deliveries(unit.db, lost + expired, number, lease)


def _let_go_lost(unit: Unit, queue: int, limit: int) -> list[int]:
    """What ended leases still hold; each lease loses what is taken from it."""
    lost: list[int] = []
    ended = unit.db.execute(SQL["ended_leases"], (queue, unit.now, unit.at.boot, unit.at.up_ms, limit))
    for lease, seqs in ended.fetchall():
        if len(lost) >= limit:
            break
        held_still = unit.db.execute(SQL["still_held"], (seqs, lease, limit - len(lost)))
        seen = [seq for (seq,) in held_still]
        unit.db.execute(SETTLE["let_go"], (lease, len(seen)))
        unit.db.execute(SETTLE["remove_empty_lease"], (lease,))
        lost += seen
    return lost


def _expired(unit: Unit, book: LaneBook, limit: int) -> list[int]:
    rows: list[Any] = unit.db.execute(SQL["expired"], (book.queue.queue, unit.now, limit)).fetchall()
    for _, number, track, crashes in rows:
        book.lane(number).take_over(track, suspect=crashes > 0)
    return [seq for seq, *_ in rows]


def cleanup(unit: Unit, asked: Cleanup, remember_s: float) -> int:
    """The write of `Upkeep.cleanup`. The count of records to keep is of the whole file."""
    db, limit, ended_before_at = unit.db, min(asked.limit, PAGE), unit.now - round(remember_s * 1000)
    before_at = min(asked.finished_before_at, ended_before_at)
    seqs = [seq for (seq,) in db.execute(SQL["finished_before"], (before_at, limit))]
    if asked.keep is not None and len(seqs) < limit:
        beyond = db.execute(SQL["first_beyond"], (asked.keep,)).fetchone()
        if beyond is not None:
            taken = set(seqs)
            rows = db.execute(SQL["finished_beyond"], (*beyond, ended_before_at, limit))
            seqs += [seq for (seq,) in rows if seq not in taken][: limit - len(seqs)]
    remove_finished(unit, seqs)
    discarded = _remove_discarded(unit, min(asked.discarded_before_at, ended_before_at), limit)
    remove_tallies(unit, limit)
    remove_totals(unit, limit)
    db.execute(SQL["remove_keys"], (unit.now, limit))
    keys = db.changes()
    db.execute(SQL["remove_records"], (unit.now, limit))
    _give_pages_back(db)
    return len(seqs) + discarded + keys


def _remove_discarded(unit: Unit, before_at: int, limit: int) -> int:
    rows: list[Any] = unit.db.execute(SQL["discarded_before"], (before_at, limit)).fetchall()
    remove_finished(unit, [seq for seq, _ in rows])
    close_children(unit.db, (parent for _, parent in rows))
    return len(rows)


def remove_finished(unit: Unit, seqs: Sequence[int]) -> None:
    """Forget finished messages with everything that was kept of them."""
    numbers = [(seq,) for seq in seqs]
    remove_failures(unit.db, seqs)
    unit.db.executemany(SETTLE["remove_redrives"], numbers)
    unit.db.executemany(SETTLE["remove_content"], numbers)
    unit.db.executemany(SQL["remove_message"], numbers)


def _give_pages_back(db: apsw.Connection) -> None:
    """A file that is mostly empty shrinks a little at each cleanup; a busy one keeps its pages for reuse."""
    empty = db.pragma("freelist_count")
    if empty > _EMPTY_PAGES and 2 * empty > db.pragma("page_count"):
        db.execute(f"pragma incremental_vacuum({_PAGES_BACK})").fetchall()
