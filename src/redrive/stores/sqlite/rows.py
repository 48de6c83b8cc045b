"""Rows to nouns. Each record is decoded inside a guard: a bad one comes out as unreadable, with its raw
bytes, and spoils nothing beside it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import apsw
import msgspec
from msgspec.structs import replace

from redrive.core.failure import Failure, Kind, Scope
from redrive.core.letters import Redriven, RedriveResult
from redrive.core.lifecycle import State
from redrive.core.message import Delivery, Lapse, Lease, Message, Progress, Track
from redrive.stores.sqlite.bulk import encode_list, number_array
from redrive.stores.sqlite.connection import DIALECT
from redrive.stores.statements import load_sql

CLAIM = load_sql(DIALECT, "claim")
FAMILIES = load_sql(DIALECT, "content")
FAILURES = load_sql(DIALECT, "content")

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
    db: apsw.Connection, seqs: Sequence[int], number: int, lease: Lease, probes: Collection[int] = ()
) -> list[Delivery]:
    """What of these messages a lease holds, in their order; `number` is the lease's in the file."""
    found: list[Delivery] = []
    for (
        seq,
        message_id,
        tenant,
        enqueued_at,
        ttl_s,
        first_track,
        dedupe,
        due_at,
        expires_at,
        attempts,
        crashes,
        generation,
        operation,
        lapse,
        parent,
        raw_headers,
        raw_body,
    ) in db.execute(CLAIM["held"], (number_array(seqs), number)):
        headers, body, unreadable = decode_body(raw_headers, raw_body)
        found.append(
            Delivery(
                Message(
                    message_id,
                    lease.queue,
                    tenant,
                    body,
                    enqueued_at,
                    ttl_s,
                    TRACKS[first_track],
                    dedupe,
                    headers,
                    parent,
                ),
                Progress(State.CLAIMED, due_at, expires_at, attempts, crashes, generation, operation),
                lease,
                None if lapse is None else Lapse(lapse),
                unreadable,
                None,
                seq in probes,
                seq,
            )
        )
    return _with_parents(db, found) if any(one.message.parent is not None for one in found) else found


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


def read_failures(db: apsw.Connection, seq: int) -> tuple[Failure, ...]:
    """A message's failures in order, of all generations."""
    return tuple(
        Failure(
            at,
            attempt,
            Kind(kind),
            reason,
            code,
            scope and Scope(scope),
            fingerprint,
            traceback,
            duration_ms,
            delay_ms,
            bool(delay_asked),
        )
        for (
            at,
            attempt,
            kind,
            reason,
            code,
            scope,
            fingerprint,
            traceback,
            duration_ms,
            delay_ms,
            delay_asked,
        ) in db.execute(FAILURES["failures"], (seq,))
    )


def read_redrives(db: apsw.Connection, seq: int) -> tuple[Redriven, ...]:
    """What was done to bring a message back, in order."""
    return tuple(
        Redriven(at, generation, actor, operation, RedriveResult(result))
        for at, generation, actor, operation, result in db.execute(FAILURES["redrives"], (seq,))
    )
