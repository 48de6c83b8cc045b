"""Reading single messages: their whole life, and pages of dead letters.

Reads on a connection of their own, inside one snapshot. A cursor names the last letter of a page by when
it died and its number, so letters that come or go in between shift nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import apsw
import msgspec

from redrive.core.errors import InvalidMessage
from redrive.core.letters import Account, DeadLetter, LetterPage, Removal
from redrive.core.lifecycle import Move, State
from redrive.core.message import Message, Progress
from redrive.core.verdict import Reason
from redrive.stores.sqlite.bulk import encode_list
from redrive.stores.sqlite.connection import DIALECT
from redrive.stores.sqlite.rows import TRACKS, decode_body, parent_bodies, read_failures, read_redrives
from redrive.stores.statements import load_sql

SQL = load_sql(DIALECT, "ledger")
_BEFORE_ALL = (-(1 << 62), 0)
_OPEN = frozenset((State.WAITING, State.CLAIMED, State.DEAD))


class AccountRow(msgspec.Struct, frozen=True, gc=False):
    """All that is known of a message, its failures and re-drives left out."""

    seq: int
    id: str
    queue: str
    tenant: str
    enqueued_at: int
    ttl_s: float
    first_track: str
    dedupe: str | None
    state: str
    due_at: int
    expires_at: int
    attempts: int
    crashes: int
    generation: int
    operation: str | None
    headers: bytes | None
    body: Any
    until_at: int | None
    reason: str | None
    died_at: int | None
    fingerprint: str | None
    finished_at: int | None
    move: str | None
    actor: str | None
    parent: str | None
    first_died_at: int | None


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
        found = _accounts(db, _rows(db, "message", message_id))
        return found[0] if found else None


def accounts(db: apsw.Connection, queue: str, ids: Sequence[str]) -> list[Account]:
    """The work of `Ledger.accounts`."""
    with snapshot(db):
        return _accounts(db, _rows(db, "accounts", queue, encode_list(ids)))


def family(db: apsw.Connection, parent_id: str) -> list[Account]:
    """The work of `Ledger.family`."""
    with snapshot(db):
        return _accounts(db, _rows(db, "family", parent_id))


def letters(db: apsw.Connection, queue: str | None, after: str | None, limit: int) -> LetterPage:
    """The work of `Ledger.letters`."""
    place = _BEFORE_ALL if after is None else _read_cursor(after)
    with snapshot(db):
        if queue is None:
            rows = _rows(db, "letters", *place, limit)
        else:
            rows = _rows(db, "letters_of_queue", *place, limit, queue)
        shared = parent_bodies(db, (row.parent for row in rows))
        found = tuple(_letter(db, row, shared.get(row.parent)) for row in rows)
    cursor = f"{rows[-1].died_at}.{rows[-1].seq}" if len(rows) == limit and rows else None
    return LetterPage(found, cursor)


def _rows(db: apsw.Connection, statement: str, *arguments: int | str) -> list[AccountRow]:
    return [AccountRow(*row) for row in db.execute(SQL[statement], arguments)]


def _accounts(db: apsw.Connection, rows: Sequence[AccountRow]) -> list[Account]:
    shared = parent_bodies(db, (row.parent for row in rows if row.state in _OPEN))
    return [_account(db, row, shared.get(row.parent) if row.state in _OPEN else None) for row in rows]


def _account(db: apsw.Connection, row: AccountRow, shared: bytes | None) -> Account:
    removal = None
    if row.move is not None and row.finished_at is not None and row.actor is not None:
        removal = Removal(row.finished_at, Move(row.move), row.actor)
    return Account(
        _message(row),
        _progress(row),
        read_failures(db, row.seq),
        read_redrives(db, row.seq),
        row.until_at,
        None if row.reason is None else Reason(row.reason),
        row.died_at,
        row.finished_at,
        removal,
        shared,
        row.first_died_at,
    )


def _letter(db: apsw.Connection, row: AccountRow, shared: bytes | None) -> DeadLetter:
    assert row.reason and row.died_at is not None and row.first_died_at is not None  # noqa: S101, PT018 - as it is dead
    return DeadLetter(
        _message(row),
        _progress(row),
        Reason(row.reason),
        row.died_at,
        row.first_died_at,
        row.fingerprint or "",
        read_failures(db, row.seq),
        read_redrives(db, row.seq),
        shared,
    )


def _message(row: AccountRow) -> Message:
    headers, body, _ = decode_body(row.headers, row.body)
    return Message(
        row.id,
        row.queue,
        row.tenant,
        body,
        row.enqueued_at,
        row.ttl_s,
        TRACKS[row.first_track],
        row.dedupe,
        headers,
        row.parent,
    )


def _progress(row: AccountRow) -> Progress:
    return Progress(
        State(row.state),
        row.due_at,
        row.expires_at,
        row.attempts,
        row.crashes,
        row.generation,
        row.operation,
    )


def _read_cursor(cursor: str) -> tuple[int, int]:
    died_at, _, seq = cursor.partition(".")
    try:
        return int(died_at), int(seq)
    except ValueError:
        raise InvalidMessage(
            f"{cursor[:40]!r} is not a cursor: use the one that the last page gave"
        ) from None
