"""What hangs on a message beside its row: its family, its failures, and its line in the index of letters.

What many messages share is kept once, as their parent's body. A parent counts its open children, which are
those that are not done, cancelled or purged; the last one to go takes the body of a finished parent with it.
A message without a parent costs a look at one column.

Each failure is a row; equal tracebacks are kept once. The office's index of dead letters is in the file too:
whatever makes a message dead adds its letter after its failures are written, whatever takes it from the dead
removes it, in the same transaction.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import Any

import apsw

from redrive.core.failure import Failure
from redrive.core.message import Message
from redrive.stores.rules.append import Parents, named_parents
from redrive.stores.sqlite.bulk import encode_list, number_array
from redrive.stores.sqlite.connection import DIALECT
from redrive.stores.statements import load_sql

SQL = load_sql(DIALECT, "content")
SETTLE = load_sql(DIALECT, "settle")


def find_parents(db: apsw.Connection, queue: int, messages: Iterable[Message]) -> Parents:
    """The parents of these messages, as the file knows them."""
    found = named_parents(messages)
    if found:
        rows: list[Any] = db.execute(SQL["parents"], (queue, encode_list(list(found)))).fetchall()
        found.update(rows)
    return found


def open_children(db: apsw.Connection, messages: Iterable[Message]) -> None:
    """Count new messages with their parents."""
    counts = Counter(message.parent for message in messages if message.parent is not None)
    db.executemany(SQL["open_children"], list(counts.items()))


def close_children(db: apsw.Connection, parents: Iterable[str | None]) -> None:
    """A child of each of these parents is finished; bodies that nobody needs any more go."""
    counts = Counter(parent for parent in parents if parent is not None)
    if counts:
        rows: list[Any] = db.executemany(SQL["close_children"], list(counts.items())).fetchall()
        remove_bodies(db, rows)


def remove_bodies(db: apsw.Connection, finished: Iterable[tuple[int, int]]) -> None:
    """The bodies of finished messages go, their headers stay with the record; the second of each pair says
    whether the body is still needed."""
    seqs = [seq for seq, needed in finished if not needed]
    if not seqs:
        return
    before = db.total_changes()
    db.execute(SETTLE["remove_bodies"], (number_array(seqs),))
    if db.total_changes() - before < len(seqs):
        db.executemany(SETTLE["empty_body"], [(seq,) for seq in seqs])


def add_failures(db: apsw.Connection, failures: Iterable[tuple[int, Failure]]) -> None:
    """Record failures after the ones that each message already has."""
    db.executemany(
        SQL["add_failure"],
        [
            (
                seq,
                failure.at,
                failure.attempt,
                failure.kind,
                failure.reason,
                failure.code,
                failure.scope,
                failure.fingerprint,
                _traceback(db, failure.traceback),
                failure.duration_ms,
                failure.delay_ms,
                failure.delay_asked,
            )
            for seq, failure in failures
        ],
    )


def remove_failures(db: apsw.Connection, seqs: Iterable[int]) -> None:
    """Remove the failures of messages that are forgotten, and tracebacks that nothing else has."""
    numbers = [(seq,) for seq in seqs]
    for statement in ("let_go_tracebacks", "remove_unused_tracebacks", "remove_failures"):
        db.executemany(SQL[statement], numbers)


def _traceback(db: apsw.Connection, text: str | None) -> int | None:
    if text is None:
        return None
    key = blake2b(text.encode(), digest_size=16).digest()
    number: int = db.execute(SQL["add_traceback"], (key, text)).get
    return number


def add_letters(db: apsw.Connection, seqs: Sequence[int]) -> None:
    """These messages are dead now, and their failures are written."""
    if seqs:
        db.execute(SQL["add_letters"], (encode_list(seqs),))


def remove_letters(db: apsw.Connection, ids: Iterable[str]) -> None:
    """These messages are not dead any more."""
    db.executemany(SQL["remove_letter"], [(each,) for each in ids])
