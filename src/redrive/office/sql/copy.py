"""The copy of dead letters that SQL is asked of, made inside SQLite from the index.

Newest letters first, as many as the limits let; what was left out is counted. Payloads are copied only for
a statement that reads them, and a very large one is replaced by its size. With a mask, the texts of failures
are redacted too: what is asked of the copy cannot find what the copy does not have.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass
from functools import lru_cache

import apsw

from redrive.core.redaction import redact
from redrive.machine.statements import load_sections
from redrive.office.documents.document import payload

LARGEST_PAYLOAD = 256 * 1024
_SQL = load_sections("redrive.office", "statements/copy.sql")
_TIMES = frozenset(("lastFailureTimestamp", "enqueuedAt", "movedToDLQAt", "firstDiedAt"))
_PAYLOAD = "originalData"
_FAILURE = "lastFailureReason"
_FAILURES = 1_000
# Columns that are made from another: whoever reads the one, reads the other.
_MADE_FROM = {
    "payload": _PAYLOAD,
    "failure": _FAILURE,
    "died": "firstDiedAt",
    "moved": "movedToDLQAt",
    "redied": "firstDiedAt",
    "enqueued": "enqueuedAt",
}

Mask = Callable[[str], str]


@dataclass(frozen=True, slots=True)
class Copied:
    """So many letters, of so many that there are."""

    letters: int
    of: int


def make_table(db: apsw.Connection) -> None:
    """The table, still empty."""
    db.pragma("temp_store", "memory")
    db.execute(_SQL["table"])


def fill_table(
    db: apsw.Connection,
    address: str,
    columns: Set[str],
    *,
    scope: str | None,
    letters: int,
    payload_bytes: int,
    mask: Mask | None,
    ttl_ms: int | None,
) -> Copied:
    """Copy the newest letters, with what is costly only where these columns are read."""

    def masked(*values: apsw.SQLiteValue) -> str:
        return original_data(values[0], mask)

    db.create_scalar_function("original_data", masked, 1)
    db.create_scalar_function("redacted", lru_cache(_FAILURES)(redact), 1)
    db.execute(_SQL["attach"], (address,))
    try:
        columns = columns | {_MADE_FROM[name] for name in columns if name in _MADE_FROM}
        wanted = {
            "payloads": _PAYLOAD in columns,
            "times": not _TIMES.isdisjoint(columns),
            "redact": mask is not None and _FAILURE in columns,
        }
        return _fill(db, {**wanted, "ttl": ttl_ms}, scope, letters, payload_bytes)
    finally:
        db.execute(_SQL["detach"])
        for name in ("original_data", "redacted"):
            db.create_scalar_function(name, None, 1)


def original_data(stored: object, mask: Mask | None) -> str:
    """A payload as JSON text: itself where it is JSON, otherwise in base64 as on the wire."""
    body = stored if isinstance(stored, bytes) else b""
    if len(body) > LARGEST_PAYLOAD:
        return json.dumps({"leftOut": f"{len(body)} bytes"})
    try:
        text = body.decode()
        json.loads(text)
    except (ValueError, RecursionError):
        text = json.dumps(payload(body))
    return text if mask is None else mask(text)


def _fill(
    db: apsw.Connection,
    wanted: Mapping[str, bool | int | None],
    scope: str | None,
    letters: int,
    payload_bytes: int,
) -> Copied:
    of = int(db.execute(_SQL["total"], {"scope": scope}).get)
    asked = {"scope": scope, "size": letters}
    if wanted["payloads"]:
        bounds = {"bytes": payload_bytes, "largest": LARGEST_PAYLOAD}
        asked["size"] = int(db.execute(_SQL["fitting"], {**asked, **bounds}).get)
    db.execute(_SQL["fill"], {**asked, **wanted})
    return Copied(db.changes(), of)
