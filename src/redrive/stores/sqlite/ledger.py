"""Reading single messages: their whole life, and pages of dead letters.

Reads on a connection of their own, inside one snapshot. A cursor names the last letter of a page by when
it died and its number, so letters that come or go in between shift nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import apsw

from redrive.core.errors import InvalidMessage
from redrive.core.letters import Account, DeadLetter, LetterPage, Removal
from redrive.core.lifecycle import Move, State
from redrive.core.message import Message, Progress
from redrive.core.verdict import Reason
from redrive.stores.sqlite.connection import DIALECT
from redrive.stores.sqlite.rows import (
    TRACKS,
    decode_body,
    encode_list,
    parent_bodies,
    read_failures,
    read_redrives,
)
from redrive.stores.statements import load_sql

SQL = load_sql(DIALECT, "ledger")
_BEFORE_ALL = (-(1 << 62), 0)
_OPEN = frozenset((State.WAITING, State.CLAIMED, State.DEAD))


@contextmanager
def snapshot(db: apsw.Connection) -> Iterator[None]:
    """Several reads that see the file at one instant."""
    db.execute("begin")
    try:
        yield
    finally:
        db.execute("rollback")


def get(db: apsw.Connection, message_id: str) -> Account | None:
    """The work of `Ledger.get`."""
    with snapshot(db):
        found = _accounts(db, db.execute(SQL["message"], (message_id,)).fetchall())
        return found[0] if found else None


def accounts(db: apsw.Connection, queue: str, ids: Sequence[str]) -> list[Account]:
    """The work of `Ledger.accounts`."""
    with snapshot(db):
        rows: list[Any] = db.execute(SQL["accounts"], (queue, encode_list(ids))).fetchall()
        return _accounts(db, rows)


def family(db: apsw.Connection, parent_id: str) -> list[Account]:
    """The work of `Ledger.family`."""
    with snapshot(db):
        return _accounts(db, db.execute(SQL["family"], (parent_id,)).fetchall())


def letters(db: apsw.Connection, queue: str | None, after: str | None, limit: int) -> LetterPage:
    """The work of `Ledger.letters`."""
    place = _BEFORE_ALL if after is None else _read_cursor(after)
    rows: list[Any]
    with snapshot(db):
        if queue is None:
            rows = db.execute(SQL["letters"], (*place, limit)).fetchall()
        else:
            rows = db.execute(SQL["letters_of_queue"], (*place, limit, queue)).fetchall()
        found = _letters(db, rows)
    cursor = f"{rows[-1][19]}.{rows[-1][0]}" if len(rows) == limit and rows else None
    return LetterPage(found, cursor)


def _letters(db: apsw.Connection, rows: Sequence[Any]) -> tuple[DeadLetter, ...]:
    shared = parent_bodies(db, (row[-1] for row in rows))
    return tuple(_letter(db, row, shared.get(row[-1])) for row in rows)


def _accounts(db: apsw.Connection, rows: Sequence[Any]) -> list[Account]:
    shared = parent_bodies(db, (row[-1] for row in rows if row[8] in _OPEN))
    return [_account(db, row, shared.get(row[-1]) if row[8] in _OPEN else None) for row in rows]


def _account(db: apsw.Connection, row: tuple[Any, ...], shared: bytes | None) -> Account:
    seq, message, progress = _nouns(row)
    until_at, reason, died_at, _, finished_at, move, actor, _ = row[17:]
    return Account(
        message,
        progress,
        read_failures(db, seq),
        read_redrives(db, seq),
        until_at,
        None if reason is None else Reason(reason),
        died_at,
        finished_at,
        None if move is None else Removal(finished_at, Move(move), actor),
        shared,
    )


def _letter(db: apsw.Connection, row: tuple[Any, ...], shared: bytes | None) -> DeadLetter:
    seq, message, progress = _nouns(row)
    reason, died_at, fingerprint = row[18:21]
    return DeadLetter(
        message,
        progress,
        Reason(reason),
        died_at,
        fingerprint,
        read_failures(db, seq),
        read_redrives(db, seq),
        shared,
    )


def _nouns(row: tuple[Any, ...]) -> tuple[int, Message, Progress]:
    seq, message_id, queue, tenant, enqueued_at, ttl_s, track, dedupe, state, *rest = row
    headers, body, _ = decode_body(rest[6], rest[7])
    return (
        seq,
        Message(message_id, queue, tenant, body, enqueued_at, ttl_s, TRACKS[track], dedupe, headers, row[-1]),
        Progress(State(state), *rest[:6]),
    )


def _read_cursor(cursor: str) -> tuple[int, int]:
    died_at, _, seq = cursor.partition(".")
    try:
        return int(died_at), int(seq)
    except ValueError:
        raise InvalidMessage(
            f"{cursor[:40]!r} is not a cursor: use the one that the last page gave"
        ) from None
