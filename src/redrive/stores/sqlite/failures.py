"""Writing what failed: one row a failure, equal tracebacks once."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b

import apsw

from redrive.core.failure import Failure
from redrive.stores.sqlite.connection import DIALECT
from redrive.stores.statements import load_sql

SQL = load_sql(DIALECT, "failures")


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
