"""What people do to single messages: redrive, discard, cancel, purge, run now, and taking in dead letters.

Every move is compare-and-set; the ids that moved are returned. A discarded letter keeps its content, a
cancelled message loses its body unless open children need it; both free their dedupe key.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from redrive.core.letters import DeadLetter, RedriveResult
from redrive.core.lifecycle import Move
from redrive.stores.sqlite.append import body_hash
from redrive.stores.sqlite.connection import DIALECT
from redrive.stores.sqlite.failures import add_failures
from redrive.stores.sqlite.families import (
    close_children,
    find_parents,
    open_children,
    remove_bodies,
    shared_size,
)
from redrive.stores.sqlite.lanes import LaneBook, find_queue
from redrive.stores.sqlite.rows import encode_headers
from redrive.stores.sqlite.writer import Step
from redrive.stores.statements import load_sql

SQL = load_sql(DIALECT, "moves")
APPEND = load_sql(DIALECT, "append")
SETTLE = load_sql(DIALECT, "settle")


def redrive(step: Step, queue: str, ids: Sequence[str], actor: str, operation: str | None) -> set[str]:
    """The step of `Ledger.redrive`."""
    book = _book(step, queue)
    if book is None:
        return set()
    bindings = [(each, book.queue.queue, step.now, operation) for each in ids]
    rows: list[Any] = step.db.executemany(SQL["redrive"], bindings).fetchall()
    for _, _, number, _ in rows:
        lane = book.lane(number)
        lane.dead -= 1
        lane.add("redrive", step.now)
    step.db.executemany(
        SQL["add_redrive"],
        [
            (seq, generation, step.now, actor, operation, RedriveResult.PENDING)
            for seq, _, _, generation in rows
        ],
    )
    book.close()
    return {row[1] for row in rows}


def discard(step: Step, queue: str, ids: Sequence[str], actor: str) -> set[str]:
    """The step of `Ledger.discard`."""
    book = _book(step, queue)
    if book is None:
        return set()
    bindings = [(each, book.queue.queue, actor, step.now) for each in ids]
    rows: list[Any] = step.db.executemany(SQL["discard"], bindings).fetchall()
    for _, _, number, _ in rows:
        book.lane(number).dead -= 1
    _free_keys(step, ((lane, dedupe, message_id) for _, message_id, lane, dedupe in rows))
    book.close()
    return {row[1] for row in rows}


def cancel(step: Step, queue: str, ids: Sequence[str], actor: str, move: Move = Move.CANCEL) -> set[str]:
    """The step of `Ledger.cancel`."""
    book = _book(step, queue)
    if book is None:
        return set()
    bindings = [(each, book.queue.queue, move, actor, step.now) for each in ids]
    rows: list[Any] = step.db.executemany(SQL["remove"], bindings).fetchall()
    for _, _, number, track, crashes, *_ in rows:
        book.lane(number).leave(track, suspect=crashes > 0)
    remove_bodies(step.db, ((row[0], row[8]) for row in rows))
    close_children(step.db, (row[7] for row in rows))
    step.db.executemany(
        SETTLE["redrive_result"], [(row[0], row[5], RedriveResult.REMOVED) for row in rows if row[5] > 0]
    )
    _free_keys(step, ((row[2], row[6], row[1]) for row in rows))
    book.close()
    return {row[1] for row in rows}


def purge(step: Step, queue: str, actor: str, limit: int) -> int:
    """The step of `Ledger.purge`."""
    found = find_queue(step.db, queue)
    if found is None:
        return 0
    ids = [row[0] for row in step.db.execute(SQL["waiting_page"], (found.queue, limit))]
    return len(cancel(step, queue, ids, actor, Move.PURGE))


def run_now(step: Step, queue: str, ids: Sequence[str]) -> set[str]:
    """The step of `Ledger.run_now`."""
    book = _book(step, queue)
    if book is None:
        return set()
    bindings = [(each, book.queue.queue, step.now) for each in ids]
    rows: list[Any] = step.db.executemany(SQL["run_now"], bindings).fetchall()
    for _, number, due_at, crashes in rows:
        if crashes == 0:
            book.lane(number).comes_due(due_at)
        else:
            step.due.add(queue)
    book.close()
    return {row[0] for row in rows}


def bury(step: Step, letters: Sequence[DeadLetter]) -> set[str]:
    """The step of `Ledger.bury`."""
    books: dict[str, LaneBook] = {}
    taken: set[str] = set()
    seq: int = step.db.execute(APPEND["last_seq"]).get
    for letter in letters:
        message = letter.message
        if message.id in taken or step.db.execute(APPEND["state_of"], (message.id,)).get is not None:
            continue
        if message.queue not in books:
            books[message.queue] = LaneBook.named(step, message.queue)
        seq += 1
        _take_in(step, books[message.queue], seq, letter)
        taken.add(message.id)
    for book in books.values():
        book.close()
    return taken


def _take_in(step: Step, book: LaneBook, seq: int, letter: DeadLetter) -> None:
    message, progress = letter.message, letter.progress
    parents = find_parents(step.db, book.queue.queue, [message])
    lane = book.tenant(message.tenant)
    lane.dead += 1
    step.db.execute(
        SQL["take_in"],
        (
            seq,
            message.id,
            book.queue.queue,
            lane.lane,
            message.track,
            progress.due_at,
            progress.expires_at,
            progress.attempts,
            progress.crashes,
            progress.generation,
            len(message.body) + shared_size(parents, message),
            message.enqueued_at,
            message.ttl_s,
            message.dedupe,
            progress.operation,
            letter.died_at,
            letter.reason,
            letter.fingerprint,
            message.parent,
        ),
    )
    open_children(step.db, [message])
    step.db.execute(APPEND["add_body"], (seq, encode_headers(message.headers), message.body))
    if message.dedupe is not None:
        key = (lane.lane, message.dedupe, message.id, body_hash(message.body))
        step.db.execute(SQL["take_free_key"], key)
    add_failures(step.db, [(seq, failure) for failure in letter.failures])
    step.db.executemany(
        SQL["add_redrive"],
        [
            (seq, each.generation, each.at, each.actor, each.operation, each.result)
            for each in letter.redrives
        ],
    )


def _book(step: Step, queue: str) -> LaneBook | None:
    found = find_queue(step.db, queue)
    return None if found is None else LaneBook(step, found)


def _free_keys(step: Step, keys: Iterable[tuple[int, str | None, str]]) -> None:
    step.db.executemany(SQL["free_key"], [key for key in keys if key[1] is not None])
