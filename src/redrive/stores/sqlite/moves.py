"""What people do to single messages: redrive, remove, cancel, purge, run now, and taking dead letters in.

Every move is compare-and-set, a letter's by its generation too; the ids that moved are returned. A discarded
or replaced letter keeps its content, an archived one only its bare record, a cancelled message loses its
body; open children keep a body all the same, and whatever is removed frees its dedupe key.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from redrive.core.letters import DeadLetter, LetterKey, RedriveResult
from redrive.core.lifecycle import Move, State, after
from redrive.core.message import Message, content_digest
from redrive.stores.rules.append import body_hash, shared_size
from redrive.stores.rules.tallies import Count, Tallies
from redrive.stores.sqlite.connection import DIALECT
from redrive.stores.sqlite.content import (
    add_failures,
    add_letters,
    close_children,
    find_parents,
    open_children,
    remove_bodies,
    remove_failures,
    remove_letters,
)
from redrive.stores.sqlite.lane_book import LaneBook, find_queue
from redrive.stores.sqlite.rows import encode_headers
from redrive.stores.sqlite.tallies import write_tallies
from redrive.stores.sqlite.unit import Unit
from redrive.stores.statements import load_sql

SQL = load_sql(DIALECT, "moves")
SETTLE = load_sql(DIALECT, "settle")
LAST_SEQ = load_sql(DIALECT, "append")["last_seq"]


class _Redriven(msgspec.Struct, frozen=True, gc=False):
    seq: int
    id: str
    lane: int
    generation: int


class _Removed(msgspec.Struct, frozen=True, gc=False):
    seq: int
    id: str
    lane: int
    dedupe: str | None
    parent: str | None
    open_children: int


class _Cancelled(msgspec.Struct, frozen=True, gc=False):
    seq: int
    id: str
    lane: int
    track: str
    crashes: int
    generation: int
    dedupe: str | None
    parent: str | None
    open_children: int
    operation: str | None


def redrive(
    unit: Unit, queue: str, letters: Sequence[LetterKey], actor: str, operation: str | None
) -> set[str]:
    """The write of `Moves.redrive`."""
    book = _book(unit, queue)
    if book is None:
        return set()
    bindings = [(each.id, each.generation, book.queue.queue, unit.now, operation) for each in letters]
    rows = [_Redriven(*row) for row in unit.db.executemany(SQL["redrive"], bindings)]
    for row in rows:
        book.lane(row.lane).redrive(unit.now)
    unit.db.executemany(
        SQL["add_redrive"],
        [(row.seq, row.generation, unit.now, actor, operation, RedriveResult.PENDING) for row in rows],
    )
    return _end_deaths(unit, book, rows, operation)


def remove(
    unit: Unit, queue: str, letters: Sequence[LetterKey], move: Move, actor: str, operation: str | None
) -> set[str]:
    """The write of `Moves.remove`."""
    if after(State.DEAD, move) is not State.REMOVED:
        raise ValueError(f"{move} does not remove a dead letter: discard, replace or archive it")
    book = _book(unit, queue)
    if book is None:
        return set()
    what = (book.queue.queue, move, actor, unit.now, operation)
    bindings = [(each.id, each.generation, *what) for each in letters]
    rows = [_Removed(*row) for row in unit.db.executemany(SQL["remove"], bindings)]
    for row in rows:
        book.lane(row.lane).dead -= 1
    _free_keys(unit, rows)
    if move is Move.ARCHIVE:
        _strip(unit, rows)
    return _end_deaths(unit, book, rows, operation)


def undiscard(unit: Unit, queue: str, letters: Sequence[LetterKey], operation: str | None) -> set[str]:
    """The write of `Moves.undiscard`."""
    book = _book(unit, queue)
    if book is None:
        return set()
    bindings = [(each.id, each.generation, book.queue.queue) for each in letters]
    rows: list[Any] = unit.db.executemany(SQL["undiscard"], bindings).fetchall()
    for _, _, number in rows:
        book.lane(number).dead += 1
    add_letters(unit.db, [seq for seq, _, _ in rows])
    tallies = Tallies()
    tallies.add(operation, Count.MOVED, len(rows))
    write_tallies(unit, tallies)
    book.close()
    return {message_id for _, message_id, _ in rows}


def _end_deaths(
    unit: Unit, book: LaneBook, rows: Sequence[_Redriven | _Removed], operation: str | None
) -> set[str]:
    moved = {row.id for row in rows}
    remove_letters(unit.db, moved)
    tallies = Tallies()
    tallies.add(operation, Count.MOVED, len(moved))
    write_tallies(unit, tallies)
    book.close()
    return moved


def _strip(unit: Unit, rows: Sequence[_Removed]) -> None:
    """Archived letters keep a bare record; a body stays while open children need it."""
    seqs = [row.seq for row in rows]
    remove_failures(unit.db, seqs)
    unit.db.executemany(SETTLE["remove_redrives"], [(seq,) for seq in seqs])
    unit.db.executemany(SETTLE["remove_content"], [(row.seq,) for row in rows if not row.open_children])
    close_children(unit.db, (row.parent for row in rows))


def cancel(unit: Unit, queue: str, ids: Sequence[str], actor: str, move: Move = Move.CANCEL) -> set[str]:
    """The write of `Moves.cancel`."""
    book = _book(unit, queue)
    if book is None:
        return set()
    bindings = [(each, book.queue.queue, move, actor, unit.now) for each in ids]
    rows = [_Cancelled(*row) for row in unit.db.executemany(SQL["cancel"], bindings)]
    tallies = Tallies()
    for row in rows:
        book.lane(row.lane).leave(row.track, suspect=row.crashes > 0)
        tallies.add(row.operation, Count.REMOVED)
    remove_bodies(unit.db, ((row.seq, row.open_children) for row in rows))
    close_children(unit.db, (row.parent for row in rows))
    ended = [(row.seq, row.generation, RedriveResult.REMOVED) for row in rows if row.generation > 0]
    unit.db.executemany(SETTLE["redrive_result"], ended)
    _free_keys(unit, rows)
    write_tallies(unit, tallies)
    book.close()
    return {row.id for row in rows}


def purge(unit: Unit, queue: str, actor: str, tenant: str | None, limit: int) -> int:
    """The write of `Moves.purge`."""
    found = find_queue(unit.db, queue)
    if found is None:
        return 0
    statement = "waiting_page" if tenant is None else "waiting_page_of_tenant"
    whose = () if tenant is None else (tenant,)
    ids = [message_id for (message_id,) in unit.db.execute(SQL[statement], (found.queue, *whose, limit))]
    return len(cancel(unit, queue, ids, actor, Move.PURGE))


def run_now(unit: Unit, queue: str, ids: Sequence[str]) -> set[str]:
    """The write of `Moves.run_now`."""
    book = _book(unit, queue)
    if book is None:
        return set()
    bindings = [(each, book.queue.queue, unit.now) for each in ids]
    rows: list[Any] = unit.db.executemany(SQL["run_now"], bindings).fetchall()
    for _, number, due_at, crashes in rows:
        if crashes == 0:
            book.lane(number).comes_due(due_at)
        else:
            unit.due.add(queue)
    book.close()
    return {message_id for message_id, *_ in rows}


def _book(unit: Unit, queue: str) -> LaneBook | None:
    found = find_queue(unit.db, queue)
    return None if found is None else LaneBook(unit, found)


def _free_keys(unit: Unit, rows: Iterable[_Removed | _Cancelled]) -> None:
    keys = [(row.lane, row.dedupe, row.id) for row in rows if row.dedupe is not None]
    unit.db.executemany(SQL["free_key"], keys)


def bury(unit: Unit, letters: Sequence[DeadLetter]) -> set[str]:
    """The write of `Moves.bury`."""
    return _Burial(unit).run(letters)


class _Burial:
    """One call of bury: the lanes it touches, and the numbers it gives.

    A letter that is not known gets a new row; one that was archived gets its own row back, unless that is the
    record of a later death. Everything else that is known is skipped. A child whose parent is gone, or has
    lost its body, brings both back: a record that its children keep, and that its own letter may replace.
    """

    def __init__(self, unit: Unit) -> None:
        self._unit, self._db = unit, unit.db
        self._books: dict[str, LaneBook] = {}
        self._taken: dict[str, int] = {}
        self._last: int = unit.db.execute(LAST_SEQ).get

    def run(self, letters: Sequence[DeadLetter]) -> set[str]:
        for letter in letters:
            self._take_in(letter)
        add_letters(self._db, list(self._taken.values()))
        for book in self._books.values():
            book.close()
        return set(self._taken)

    def _book(self, queue: str) -> LaneBook:
        if queue not in self._books:
            self._books[queue] = LaneBook.named(self._unit, queue)
        return self._books[queue]

    def _take_in(self, letter: DeadLetter) -> None:
        message = letter.message
        row = self._db.execute(SQL["known"], (message.id, message.queue, letter.progress.generation))
        seq, archived = row.fetchone() or (None, False)
        if seq is None:
            self._last += 1
            self._write("take_in", self._last, letter, self._shared(letter))
        elif archived:
            self._write("restore", seq, letter, self._shared(letter))

    def _shared(self, letter: DeadLetter) -> int:
        """What it shares with its siblings, in bytes; InvalidMessage when nobody has it."""
        message = letter.message
        parents = find_parents(self._db, self._book(message.queue).queue.queue, [message])
        if (
            None in parents.values()
            and letter.shared is not None
            and self._bring_back(message, letter.shared)
        ):
            return len(letter.shared)
        return shared_size(parents, message)

    def _bring_back(self, message: Message, shared: bytes) -> bool:
        """Give a parent its body again, or the store its parent; False when another message has its id."""
        book = self._book(message.queue)
        seq, queue = self._db.execute(SQL["parent"], (message.parent,)).fetchone() or (None, None)
        if message.parent == message.id or (seq is not None and queue != book.queue.queue):
            return False
        if seq is None:
            self._last += 1
            seq = self._last
            lane = book.tenant(message.tenant).lane
            row = (seq, message.parent, book.queue.queue, lane, message.track, message.enqueued_at)
            self._db.execute(SQL["add_parent"], (*row, message.ttl_s, len(shared), self._unit.now))
        self._db.execute(SQL["write_shared"], (seq, shared))
        return True

    def _write(self, statement: str, seq: int, letter: DeadLetter, shared: int) -> None:
        message, progress = letter.message, letter.progress
        book = self._book(message.queue)
        lane = book.tenant(message.tenant)
        lane.dead += 1
        self._db.execute(
            SQL[statement],
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
                len(message.body) + shared,
                message.enqueued_at,
                message.ttl_s,
                message.dedupe,
                progress.operation,
                letter.died_at,
                letter.reason,
                letter.fingerprint,
                message.parent,
                content_digest(message),
                letter.first_died_at,
            ),
        )
        self._taken[message.id] = seq
        open_children(self._db, [message])
        self._write_content(seq, lane.lane, letter)

    def _write_content(self, seq: int, lane: int, letter: DeadLetter) -> None:
        message = letter.message
        self._db.execute(SQL["write_body"], (seq, encode_headers(message.headers), message.body))
        if message.dedupe is not None:
            key = (lane, message.dedupe, message.id, body_hash(message.body), self._unit.now)
            self._db.execute(SQL["take_free_key"], key)
        add_failures(self._db, [(seq, failure) for failure in letter.failures])
        redrives = [
            (seq, each.generation, each.at, each.actor, each.operation, each.result)
            for each in letter.redrives
        ]
        self._db.executemany(SQL["add_redrive"], redrives)
