"""Nouns to bytes and back, as they lie in Redis.

A frame is the frozen message: 4 bytes of envelope length, the envelope (msgpack, with a format number),
the body; so a script can drop the body without reading the rest. Progress, failures and re-drives are
msgpack maps that the scripts read too. What cannot be decoded becomes `unreadable` with its raw bytes,
never an exception (P25).
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b

import msgspec

from redrive.core.errors import InvalidMessage
from redrive.core.failure import Failure, Kind, Scope
from redrive.core.letters import DeadLetter, Redriven, RedriveResult
from redrive.core.lifecycle import State
from redrive.core.message import Delivery, Entry, Lapse, Lease, Message, Progress, Track

FORMAT = 1
_LENGTH_BYTES = 4


class Envelope(msgspec.Struct, array_like=True, frozen=True):
    """The frozen message without its body; new fields are added at the end, under a new format."""

    format: int
    tenant: str
    enqueued_at: int
    ttl_s: float
    track: Track
    dedupe: str | None
    headers: dict[str, str]


class StoredProgress(msgspec.Struct, frozen=True, omit_defaults=False):
    """Progress as the scripts keep it, with what they need beside it to find the message's sets."""

    state: State = State.WAITING
    tenant: str = "unknown"
    track: Track = Track.MAIN
    due_at: int = 0
    expires_at: int = 0
    ttl_ms: int = 0
    size: int = 0
    attempts: int = 0
    crashes: int = 0
    generation: int = 0
    sequence: int = 0
    operation: str | None = None
    dedupe: str | None = None
    token: str | None = None
    lapse: Lapse | None = None
    parent: str | None = None
    probe: bool = False
    charged: bool = False
    damaged: bool = False
    reason: str | None = None
    fingerprint: str | None = None
    died_at: int | None = None
    finished_at: int | None = None
    move: str | None = None
    actor: str | None = None

    def progress(self) -> Progress:
        return Progress(
            self.state,
            self.due_at,
            self.expires_at,
            self.attempts,
            self.crashes,
            self.generation,
            self.operation,
        )


class StoredFailure(msgspec.Struct, frozen=True):
    """A failure whose traceback is kept once for all that are equal, under its digest."""

    at: int
    attempt: int
    kind: Kind
    reason: str
    code: str | None = None
    scope: Scope | None = None
    fingerprint: str = ""
    trace: str | None = None


class StoredRedriven(msgspec.Struct, frozen=True):
    """A re-drive as the scripts write it."""

    at: int
    generation: int
    actor: str
    operation: str | None = None
    result: RedriveResult = RedriveResult.PENDING


_encoder = msgspec.msgpack.Encoder()
_envelopes = msgspec.msgpack.Decoder(Envelope)
_progress = msgspec.msgpack.Decoder(StoredProgress)
_failures = msgspec.msgpack.Decoder(StoredFailure)
_redrives = msgspec.msgpack.Decoder(StoredRedriven)


def digest(content: bytes) -> str:
    """Thirty-two hex digits: whether two bodies, digests of bodies, or tracebacks are the same."""
    return blake2b(content, digest_size=16).hexdigest()


def pack_message(message: Message) -> bytes:
    """The frame of a message."""
    envelope = Envelope(
        FORMAT,
        message.tenant,
        message.enqueued_at,
        message.ttl_s,
        message.track,
        message.dedupe,
        dict(message.headers),
    )
    try:
        packed = _encoder.encode(envelope)
    except UnicodeEncodeError as error:
        raise InvalidMessage(
            f"message {message.id} holds text that is not Unicode: {error.reason}"
        ) from error
    return len(packed).to_bytes(_LENGTH_BYTES, "big") + packed + message.body


def pack_progress(message: Message, progress: Progress, **more: str | int | None) -> bytes:
    """The first progress of a message; `more` is what a letter from elsewhere already has."""
    stored = StoredProgress(
        state=progress.state,
        tenant=message.tenant,
        track=message.track,
        due_at=progress.due_at,
        expires_at=progress.expires_at,
        ttl_ms=round(message.ttl_s * 1000),
        size=len(message.body),
        attempts=progress.attempts,
        crashes=progress.crashes,
        generation=progress.generation,
        operation=progress.operation,
        dedupe=message.dedupe,
        parent=message.parent,
    )
    return _encoder.encode(msgspec.structs.replace(stored, **more) if more else stored)


def pack_entry(entry: Entry) -> tuple[str, str, bytes, bytes]:
    """Id, digest of what its dedupe key stands for, frame and progress of a message on its way in."""
    message = entry.message
    progress = Progress(State.WAITING, entry.due_at, entry.expires_at)
    stands_for = digest(message.body if entry.digest is None else entry.digest)
    return message.id, stands_for, pack_message(message), pack_progress(message, progress)


def pack_failure(failure: Failure | None) -> tuple[bytes, str, bytes]:
    """The failure, the digest of its traceback, the traceback; empty where there is none."""
    if failure is None:
        return b"", "", b""
    trace = (failure.traceback or "").encode("utf-8", "replace")
    trace_digest = digest(trace) if trace else None
    stored = StoredFailure(
        failure.at,
        failure.attempt,
        failure.kind,
        failure.reason,
        failure.code,
        failure.scope,
        failure.fingerprint,
        trace_digest,
    )
    return _encoder.encode(stored), trace_digest or "", trace


def pack_letter(letter: DeadLetter) -> list[str | int | bytes]:
    """A dead letter from elsewhere, as bury.lua takes it."""
    message = letter.message
    progress = pack_progress(
        message,
        letter.progress,
        reason=letter.reason.value,
        fingerprint=letter.fingerprint,
        died_at=letter.died_at,
    )
    failures = [part for failure in letter.failures for part in pack_failure(failure)]
    redrives = [
        _encoder.encode(StoredRedriven(one.at, one.generation, one.actor, one.operation, one.result))
        for one in letter.redrives
    ]
    frame = pack_message(message)
    head: list[str | int | bytes] = [message.id, digest(message.body), frame, progress]
    return [*head, len(letter.failures), *failures, len(redrives), *redrives]


def unpack_progress(packed: bytes | None) -> StoredProgress:
    """The stored progress; a damaged one says so instead of raising."""
    try:
        return _progress.decode(packed or b"")
    except msgspec.DecodeError:
        return StoredProgress(damaged=True)


def unpack_message(
    message_id: str, queue: str, frame: bytes | None, stored: StoredProgress
) -> tuple[Message, str | None]:
    """The message, and why it is unreadable where it is; its body is then the raw frame."""
    try:
        envelope, body = _open_frame(frame or b"")
    except (msgspec.DecodeError, ValueError) as error:
        raw = Message(
            message_id,
            queue,
            stored.tenant,
            frame or b"",
            0,
            stored.ttl_ms / 1000,
            stored.track,
            parent=stored.parent,
        )
        return raw, f"the record of {message_id} cannot be decoded: {error}"
    tenant = envelope.tenant if stored.damaged else stored.tenant
    message = Message(
        message_id,
        queue,
        tenant,
        body,
        envelope.enqueued_at,
        envelope.ttl_s,
        envelope.track,
        envelope.dedupe,
        envelope.headers,
        stored.parent,
    )
    return message, f"the progress of {message_id} cannot be decoded" if stored.damaged else None


def unpack_delivery(
    lease: Lease,
    parents: Mapping[str, bytes | None],
    message_id: bytes,
    frame: bytes | None,
    packed: bytes | None,
) -> Delivery:
    """One message of a claimed batch; `parents` are the bodies of the batch's parents."""
    stored = unpack_progress(packed)
    message, unreadable = unpack_message(message_id.decode(), lease.queue, frame, stored)
    parent_body = None if message.parent is None else parents.get(message.parent)
    if message.parent is not None and parent_body is None:
        unreadable = unreadable or f"the body of its parent {message.parent} is missing or cannot be decoded"
    return Delivery(message, stored.progress(), lease, stored.lapse, unreadable, parent_body, stored.probe)


def unpack_body(frame: bytes | None) -> bytes | None:
    """The body alone; None when the frame is missing or damaged."""
    try:
        return _open_frame(frame or b"")[1]
    except (msgspec.DecodeError, ValueError):
        return None


def unpack_failure(packed: bytes, traces: dict[bytes, bytes]) -> Failure:
    """One failed attempt, with its traceback looked up."""
    stored = _failures.decode(packed)
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
    )


def unpack_redriven(packed: bytes) -> Redriven:
    """One re-drive of a letter."""
    stored = _redrives.decode(packed)
    return Redriven(stored.at, stored.generation, stored.actor, stored.operation, stored.result)


def _open_frame(frame: bytes) -> tuple[Envelope, bytes]:
    ends = _LENGTH_BYTES + int.from_bytes(frame[:_LENGTH_BYTES], "big")
    if len(frame) <= _LENGTH_BYTES or len(frame) < ends:
        raise ValueError("it is cut short")
    envelope = _envelopes.decode(frame[_LENGTH_BYTES:ends])
    if envelope.format > FORMAT:
        raise ValueError(f"its format is {envelope.format}, newer than {FORMAT}: upgrade Redrive")
    return envelope, frame[ends:]
