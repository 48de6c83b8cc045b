"""Rows to nouns. Each record is decoded inside a guard: a bad one comes out as unreadable, with its raw
bytes, and spoils nothing beside it (P25)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import apsw
import msgspec

from redrive.core.failure import Failure, Kind, Scope
from redrive.core.letters import Redriven, RedriveResult
from redrive.core.lifecycle import State
from redrive.core.message import Delivery, Lapse, Lease, Message, Progress, Track
from redrive.stores.sqlite.connection import DIALECT
from redrive.stores.statements import load_sql

CLAIM = load_sql(DIALECT, "claim")
FAILURES = load_sql(DIALECT, "failures")

TRACKS = {track.value: track for track in Track}
_decode_headers = msgspec.json.Decoder(dict[str, str]).decode
_encode = msgspec.json.Encoder().encode


def encode_headers(headers: Mapping[str, str]) -> str | None:
    """Headers as they are stored: JSON, or nothing."""
    return _encode(headers).decode() if headers else None


def decode_body(headers: Any, body: Any) -> tuple[Mapping[str, str], bytes, str | None]:
    """Headers, body, and what is wrong with them."""
    if not isinstance(body, bytes):
        raw = body.encode("utf-8", "replace") if isinstance(body, str) else b""
        return {}, raw, "the record's body is missing or is not bytes"
    if headers is None:
        return {}, body, None
    try:
        return _decode_headers(headers), body, None
    except (msgspec.DecodeError, TypeError) as error:
        return {}, body, f"the record's headers cannot be decoded: {error}"


def read_deliveries(
    db: apsw.Connection, rows: Sequence[tuple[Any, ...]], lease: Lease, tenants: Mapping[int, str]
) -> list[Delivery]:
    """Deliveries of rows as `take` and `held` return them, in their order."""
    seqs = encode_numbers([row[0] for row in rows])
    contents = {seq: (headers, body) for seq, headers, body in db.execute(CLAIM["bodies"], (seqs,))}
    return [_delivery(row, contents.get(row[0], (None, None)), lease, tenants[row[2]]) for row in rows]


def encode_numbers(numbers: Sequence[int]) -> str:
    """Numbers as one argument of a statement, and as a lease keeps them: JSON."""
    return _encode(numbers).decode()


def _delivery(row: tuple[Any, ...], content: tuple[Any, Any], lease: Lease, tenant: str) -> Delivery:
    (_, message_id, _, enqueued_at, ttl_s, track, dedupe, due_at, expires_at, attempts, crashes) = row[:11]
    generation, operation, lapse = row[11:]
    headers, body, unreadable = decode_body(*content)
    return Delivery(
        Message(message_id, lease.queue, tenant, body, enqueued_at, ttl_s, TRACKS[track], dedupe, headers),
        Progress(State.CLAIMED, due_at, expires_at, attempts, crashes, generation, operation),
        lease,
        None if lapse is None else Lapse(lapse),
        unreadable,
    )


def read_failures(db: apsw.Connection, seq: int) -> tuple[Failure, ...]:
    """A message's failures in order, of all generations."""
    return tuple(
        Failure(at, attempt, Kind(kind), reason, code, scope and Scope(scope), fingerprint, traceback)
        for at, attempt, kind, reason, code, scope, fingerprint, traceback in db.execute(
            FAILURES["failures"], (seq,)
        )
    )


def read_redrives(db: apsw.Connection, seq: int) -> tuple[Redriven, ...]:
    """What was done to bring a message back, in order."""
    return tuple(
        Redriven(at, generation, actor, operation, RedriveResult(result))
        for at, generation, actor, operation, result in db.execute(FAILURES["redrives"], (seq,))
    )
