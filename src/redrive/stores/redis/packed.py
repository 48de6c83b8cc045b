"""What lies beside a frame in Redis: progress, failures and re-drives, to bytes and back.

Progress and failures are msgpack arrays, in the order of the fields here; the scripts read and write them
too. Empty text and 0 stand for none. Lists of failures and of re-drives are records behind 4 bytes of length
each.
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b

import msgspec
from msgspec.structs import replace

from redrive.core.failure import Failure, Kind, Scope
from redrive.core.letters import DeadLetter, Redriven, RedriveResult
from redrive.core.lifecycle import State
from redrive.core.message import Message, Progress, Track, expiry
from redrive.core.verdict import Reason
from redrive.stores.redis.frames import TRACKS, digest_body, pack_frame, pack_id

_LENGTH_BYTES = 4


class StoredProgress(msgspec.Struct, array_like=True, frozen=True):
    """Progress as the scripts keep it, with what they need beside it to find the message's places."""

    state: State = State.WAITING
    tenant: str = "unknown"
    track: int = 1
    due_at: int = 0
    expires_at: int = 0
    attempts: int = 0
    crashes: int = 0
    generation: int = 0
    size: int = 0
    ttl_ms: int = 0
    operation: str = ""
    judged: bool = False
    damaged: bool = False
    reason: str = ""
    fingerprint: str = ""
    died_at: int = 0
    finished_at: int = 0
    move: str = ""
    actor: str = ""
    first_died_at: int = 0

    def progress(self, state: State) -> Progress:
        """As core has it, in a state that its place tells."""
        return Progress(
            state,
            self.due_at,
            self.expires_at,
            self.attempts,
            self.crashes,
            self.generation,
            self.operation or None,
        )


class StoredFailure(msgspec.Struct, array_like=True, frozen=True):
    """A failure whose traceback is kept once for all that are equal, under its digest."""

    at: int
    attempt: int
    kind: Kind
    reason: str
    code: str | None = None
    scope: Scope | None = None
    fingerprint: str = ""
    trace: str = ""
    duration_ms: int | None = None
    delay_ms: int | None = None
    delay_asked: bool = False


class StoredRedriven(msgspec.Struct, frozen=True):
    """A re-drive as the scripts write it."""

    at: int
    generation: int
    actor: str
    operation: str | None = None
    result: RedriveResult = RedriveResult.PENDING


DAMAGED = StoredProgress(damaged=True)

_encoder = msgspec.msgpack.Encoder()
_progress = msgspec.msgpack.Decoder(StoredProgress)
_failures = msgspec.msgpack.Decoder(StoredFailure)
_redrives = msgspec.msgpack.Decoder(StoredRedriven)


def unpack_progress(packed: bytes | None) -> StoredProgress:
    """The stored progress; a damaged one says so instead of raising."""
    try:
        return _progress.decode(packed or b"")
    except msgspec.DecodeError:
        return DAMAGED


def pack_failure(failure: Failure | None) -> tuple[bytes, str, bytes]:
    """The failure, the digest of its traceback, the traceback; empty where there is none."""
    if failure is None:
        return b"", "", b""
    trace = (failure.traceback or "").encode("utf-8", "replace")
    trace_digest = blake2b(trace, digest_size=16).hexdigest() if trace else ""
    stored = StoredFailure(
        failure.at,
        failure.attempt,
        failure.kind,
        failure.reason,
        failure.code,
        failure.scope,
        failure.fingerprint,
        trace_digest,
        failure.duration_ms,
        failure.delay_ms,
        failure.delay_asked,
    )
    return _encoder.encode(stored), trace_digest, trace


def pack_letter(letter: DeadLetter, *, with_parent: bool) -> list[str | int | bytes]:
    """A dead letter from elsewhere, as bury.lua takes it; with what it shares, where that is known."""
    message, progress = letter.message, letter.progress
    frame = pack_frame(message, progress.due_at, progress.expires_at)
    packed = _encoder.encode(_letter_progress(letter, message, progress))
    failures = [part for failure in letter.failures for part in pack_failure(failure)]
    redrives = [
        _encoder.encode(StoredRedriven(one.at, one.generation, one.actor, one.operation, one.result))
        for one in letter.redrives
    ]
    parent = _pack_parent(message, letter.shared) if with_parent else b""
    head: list[str | int | bytes] = [pack_id(message.id), digest_body(message.body), frame, packed, parent]
    return [*head, len(letter.failures), *failures, len(redrives), *redrives]


def _pack_parent(child: Message, shared: bytes | None) -> bytes:
    """The frame of a parent of which only the body is known."""
    if child.parent is None or shared is None:
        return b""
    parent = replace(child, id=child.parent, body=shared, dedupe=None, headers={}, parent=None)
    return pack_frame(parent, child.enqueued_at, expiry(child.enqueued_at, child.enqueued_at, child.ttl_s))


def _letter_progress(letter: DeadLetter, message: Message, progress: Progress) -> StoredProgress:
    return StoredProgress(
        state=State.DEAD,
        tenant=message.tenant,
        track=TRACKS.index(message.track) + 1,
        due_at=progress.due_at,
        expires_at=progress.expires_at,
        attempts=progress.attempts,
        crashes=progress.crashes,
        generation=progress.generation,
        size=len(message.body),
        ttl_ms=round(message.ttl_s * 1000),
        operation=progress.operation or "",
        reason=letter.reason.value,
        fingerprint=letter.fingerprint,
        died_at=letter.died_at,
        first_died_at=letter.first_died_at,
    )


def unpack_failures(packed: bytes, traces: dict[bytes, bytes]) -> tuple[Failure, ...]:
    """The failed attempts, each with its traceback looked up."""
    return tuple(_read_failure(_failures.decode(record), traces) for record in _split(packed))


def unpack_redrives(packed: bytes) -> tuple[Redriven, ...]:
    """The re-drives of a letter."""
    stored = (_redrives.decode(record) for record in _split(packed))
    return tuple(Redriven(one.at, one.generation, one.actor, one.operation, one.result) for one in stored)


def read_reason(stored: StoredProgress) -> Reason | None:
    """Why a message is or was a dead letter."""
    return Reason(stored.reason) if stored.reason else None


def track_of(stored: StoredProgress) -> Track:
    """The track that it waits on."""
    return TRACKS[stored.track - 1]


def _read_failure(stored: StoredFailure, traces: dict[bytes, bytes]) -> Failure:
    trace = traces.get(stored.trace.encode()) if stored.trace else None
    return Failure(
        stored.at,
        stored.attempt,
        stored.kind,
        stored.reason,
        stored.code,
        stored.scope,
        stored.fingerprint,
        trace.decode("utf-8", "replace") if trace else None,
        stored.duration_ms,
        stored.delay_ms,
        stored.delay_asked,
    )


def _split(packed: bytes) -> Iterator[bytes]:
    position = 0
    while position < len(packed):
        begins = position + _LENGTH_BYTES
        position = begins + int.from_bytes(packed[position:begins], "big")
        yield packed[begins:position]
