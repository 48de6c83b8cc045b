"""What people do to single messages: redrive, remove, cancel, purge, run now.

Every move is compare-and-set, a letter's by its generation too; the ids that moved are returned. A discarded
or replaced letter keeps its content, an archived one only its bare record, a cancelled message loses its
body; open children keep a body all the same, and whatever is removed frees its dedupe key.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from redrive.core.letters import LetterKey, RedriveResult
from redrive.core.lifecycle import Move, State, after
from redrive.stores.sqlite.connection import DIALECT
from redrive.stores.sqlite.failures import remove_failures
from redrive.stores.sqlite.families import close_children, remove_bodies
from redrive.stores.sqlite.lanes import LaneBook, find_queue
from redrive.stores.sqlite.letters import remove_letters
from redrive.stores.sqlite.tallies import Count, Tallies
from redrive.stores.sqlite.writer import Step
from redrive.stores.statements import load_sql

SQL = load_sql(DIALECT, "moves")
SETTLE = load_sql(DIALECT, "settle")


def redrive(
    step: Step, queue: str, letters: Sequence[LetterKey], actor: str, operation: str | None
) -> set[str]:
    """The step of `Moves.redrive`."""
    book = _book(step, queue)
    if book is None:
        return set()
    bindings = [(each.id, each.generation, book.queue.queue, step.now, operation) for each in letters]
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
    return _end_deaths(step, book, rows, operation)


def remove(
    step: Step, queue: str, letters: Sequence[LetterKey], move: Move, actor: str, operation: str | None
) -> set[str]:
    """The step of `Moves.remove`."""
    if after(State.DEAD, move) is not State.REMOVED:
        raise ValueError(f"{move} does not remove a dead letter: discard, replace or archive it")
    book = _book(step, queue)
    if book is None:
        return set()
    what = (book.queue.queue, move, actor, step.now, operation)
    bindings = [(each.id, each.generation, *what) for each in letters]
    rows: list[Any] = step.db.executemany(SQL["remove"], bindings).fetchall()
    for row in rows:
        book.lane(row[2]).dead -= 1
    _free_keys(step, ((lane, dedupe, message_id) for _, message_id, lane, dedupe, *_ in rows))
    if move is Move.ARCHIVE:
        _strip(step, rows)
    return _end_deaths(step, book, rows, operation)


def _end_deaths(step: Step, book: LaneBook, rows: Sequence[Any], operation: str | None) -> set[str]:
    moved = {row[1] for row in rows}
    remove_letters(step.db, moved)
    tallies = Tallies()
    tallies.add(operation, Count.MOVED, len(moved))
    tallies.write(step)
    book.close()
    return moved


def _strip(step: Step, rows: Sequence[Any]) -> None:
    """Archived letters keep a bare record; a body stays while open children need it."""
    seqs = [row[0] for row in rows]
    remove_failures(step.db, seqs)
    step.db.executemany(SETTLE["remove_redrives"], [(seq,) for seq in seqs])
    step.db.executemany(SETTLE["remove_content"], [(row[0],) for row in rows if not row[5]])
    close_children(step.db, (row[4] for row in rows))


def cancel(step: Step, queue: str, ids: Sequence[str], actor: str, move: Move = Move.CANCEL) -> set[str]:
    """The step of `Moves.cancel`."""
    book = _book(step, queue)
    if book is None:
        return set()
    bindings = [(each, book.queue.queue, move, actor, step.now) for each in ids]
    rows: list[Any] = step.db.executemany(SQL["cancel"], bindings).fetchall()
    tallies = Tallies()
    for _, _, number, track, crashes, *_, operation in rows:
        book.lane(number).leave(track, suspect=crashes > 0)
        tallies.add(operation, Count.REMOVED)
    remove_bodies(step.db, ((row[0], row[8]) for row in rows))
    close_children(step.db, (row[7] for row in rows))
    step.db.executemany(
        SETTLE["redrive_result"], [(row[0], row[5], RedriveResult.REMOVED) for row in rows if row[5] > 0]
    )
    _free_keys(step, ((row[2], row[6], row[1]) for row in rows))
    tallies.write(step)
    book.close()
    return {row[1] for row in rows}


def purge(step: Step, queue: str, actor: str, limit: int) -> int:
    """The step of `Moves.purge`."""
    found = find_queue(step.db, queue)
    if found is None:
        return 0
    ids = [row[0] for row in step.db.execute(SQL["waiting_page"], (found.queue, limit))]
    return len(cancel(step, queue, ids, actor, Move.PURGE))


def run_now(step: Step, queue: str, ids: Sequence[str]) -> set[str]:
    """The step of `Moves.run_now`."""
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


def _book(step: Step, queue: str) -> LaneBook | None:
    found = find_queue(step.db, queue)
    return None if found is None else LaneBook(step, found)


def _free_keys(step: Step, keys: Iterable[tuple[int, str | None, str]]) -> None:
    step.db.executemany(SQL["free_key"], [key for key in keys if key[1] is not None])
