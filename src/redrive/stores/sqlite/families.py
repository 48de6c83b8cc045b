"""Parents and children: what many messages share is kept once, as their parent's body.

A parent counts its open children, which are those that are not done, cancelled or purged; the last one to
go takes the body of a finished parent with it, in the same step. A message without a parent costs a look at
one column.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import apsw

from redrive.core.errors import InvalidMessage
from redrive.core.message import Message
from redrive.stores.sqlite.connection import DIALECT
from redrive.stores.sqlite.rows import encode_list
from redrive.stores.statements import load_sql

SQL = load_sql(DIALECT, "families")
SETTLE = load_sql(DIALECT, "settle")

Parents = dict[str, int | None]
"""The parents that a call names, with the size of their bodies; None for one that cannot have children."""


def find_parents(db: apsw.Connection, queue: int, messages: Iterable[Message]) -> Parents:
    """The parents of these messages, as the file knows them."""
    found: Parents = {message.parent: None for message in messages if message.parent is not None}
    if found:
        rows: list[Any] = db.execute(SQL["parents"], (queue, encode_list(list(found)))).fetchall()
        found.update(rows)
    return found


def shared_size(parents: Mapping[str, int | None], message: Message, index: int | None = None) -> int:
    """What a message shares with its siblings, in bytes; InvalidMessage when it has no such parent."""
    if message.parent is None:
        return 0
    size = parents[message.parent]
    if size is None:
        raise InvalidMessage(
            f"its parent {message.parent} is not in queue {message.queue}, or is finished and has lost "
            "its body: append the parent first, and children only while it lives",
            index,
        )
    return size


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
    seqs = [(seq,) for seq, needed in finished if not needed]
    before = db.total_changes()
    db.executemany(SETTLE["remove_body"], seqs)
    if db.total_changes() - before < len(seqs):
        db.executemany(SETTLE["empty_body"], seqs)
