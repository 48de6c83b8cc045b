"""Rows to nouns. Each record is decoded inside a guard: a bad one comes out as unreadable, with its raw
bytes, and spoils nothing beside it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
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
FAMILIES = load_sql(DIALECT, "content")
FAILURES = load_sql(DIALECT, "content")

TRACKS = {track.value: track for track in Track}
_decode_headers = msgspec.json.Decoder(dict[str, str]).decode
_decode_numbers = msgspec.json.Decoder(list[int]).decode
_encode = msgspec.json.Encoder().encode


class ClaimedRow(msgspec.Struct, frozen=True, gc=False):
    """A message that is handed out, without its content."""

    seq: int
    id: str
    lane: int
    enqueued_at: int
    ttl_s: float
    first_track: str
    dedupe: str | None
    due_at: int
    expires_at: int
    attempts: int
    crashes: int
    generation: int
    operation: str | None
    lapse: str | None
    parent: str | None


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
    db: apsw.Connection,
    rows: Sequence[ClaimedRow],
    lease: Lease,
    tenants: Mapping[int, str],
    probes: Collection[int] = (),
) -> list[Delivery]:
    """Deliveries of these rows, in their order."""
    seqs = encode_list([row.seq for row in rows])
    contents = {seq: (headers, body) for seq, headers, body in db.execute(CLAIM["bodies"], (seqs,))}
    found = [_delivery(row, contents.get(row.seq, (None, None)), lease, tenants[row.lane]) for row in rows]
    if probes:
        found = [replace(one, probe=row.seq in probes) for one, row in zip(found, rows, strict=True)]
    return _with_parents(db, found) if any(row.parent is not None for row in rows) else found


def _with_parents(db: apsw.Connection, deliveries: Sequence[Delivery]) -> list[Delivery]:
    """The same with the bodies of their parents, each read once."""
    bodies = parent_bodies(db, (one.message.parent for one in deliveries))
    return [_with_parent(one, bodies.get(one.message.parent)) for one in deliveries]


def parent_bodies(db: apsw.Connection, parents: Iterable[str | None]) -> dict[str | None, bytes]:
    """What the children of these parents share, each body once."""
    wanted = {parent for parent in parents if parent is not None}
    rows = db.execute(FAMILIES["parent_bodies"], (encode_list(list(wanted)),)) if wanted else ()
    return {parent: body for parent, body in rows if isinstance(body, bytes)}


def _with_parent(delivery: Delivery, body: bytes | None) -> Delivery:
    parent = delivery.message.parent
    if parent is None:
        return delivery
    if body is not None:
        return replace(delivery, parent_body=body)
    why = f"the body of its parent {parent} is missing or is not bytes"
    return replace(delivery, unreadable=delivery.unreadable or why)


def encode_list(values: Sequence[int] | Sequence[str] | Sequence[tuple[str, str]]) -> str:
    """Many values as one argument of a statement, and as a lease keeps them: JSON."""
    return _encode(values).decode()


def decode_numbers(text: str | None) -> list[int]:
    """Numbers as `encode_list` wrote them; none where nothing was written."""
    return [] if text is None else _decode_numbers(text)


def _delivery(row: ClaimedRow, content: tuple[Any, Any], lease: Lease, tenant: str) -> Delivery:
    headers, body, unreadable = decode_body(*content)
    return Delivery(
        Message(
            row.id,
            lease.queue,
            tenant,
            body,
            row.enqueued_at,
            row.ttl_s,
            TRACKS[row.first_track],
            row.dedupe,
            headers,
            row.parent,
        ),
        Progress(
            State.CLAIMED,
            row.due_at,
            row.expires_at,
            row.attempts,
            row.crashes,
            row.generation,
            row.operation,
        ),
        lease,
        None if row.lapse is None else Lapse(row.lapse),
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
