"""What an archive holds, line by line: a header, one line a letter with all that is known of it, a trailer.

What several letters share, the mail of one recipient of many, stands once in a line of its own before the
first of them, and holds for the letters after it until SHARED_LINES others have come: so a reader needs to
remember no more than these.

Lines are JSON with the wire's names; instants are milliseconds since 1970, so that they come back exactly. A
body that is text stands as text, any other in base64: its bytes are the same either way. A field that this
version does not know makes a line unreadable: what cannot be restored whole is not restored.
"""

from __future__ import annotations

import base64
import binascii

import msgspec

from redrive.core.errors import RedriveError
from redrive.core.failure import Failure, Kind, Scope
from redrive.core.letters import DeadLetter, Redriven, RedriveResult, first_death
from redrive.core.lifecycle import State
from redrive.core.message import Message, Progress, Track
from redrive.core.verdict import Reason

FORMAT = "redrive letters"
VERSION = 4
READABLE = (1, 2, 3, 4)
SHARED_LINES = 8


class ArchiveError(RedriveError):
    """An archive that cannot be written or read; says what is wrong and where."""


class ArchiveLine(
    msgspec.Struct, frozen=True, rename="camel", tag_field="line", tag=str.lower, forbid_unknown_fields=True
):
    """One line of an archive; `line` says which kind."""


class Header(ArchiveLine, frozen=True):
    """The first line. `store` never holds a secret."""

    format: str
    version: int
    store: str
    queue: str
    made_at: int


class Trailer(ArchiveLine, frozen=True):
    """The last line: how many letters there are, and the hash of all lines before this one."""

    count: int
    sha256: str


class ArchivedFailure(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """One failed attempt. Before version 4 it has neither `durationMs` nor a delay."""

    at: int
    attempt: int
    kind: Kind
    reason: str
    code: str | None
    scope: Scope | None
    fingerprint: str
    traceback: str | None
    duration_ms: int | None = None
    delay_ms: int | None = None
    delay_asked: bool = False


class ArchivedRedrive(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """One re-drive and what came of it."""

    at: int
    generation: int
    actor: str
    operation: str | None
    result: RedriveResult


class Shared(ArchiveLine, frozen=True):
    """The body of a parent, which the letters that name it need. Either `body` or `base64` holds it."""

    job_id: str
    body: str | None
    base64: str | None


class Letter(ArchiveLine, frozen=True):
    """A dead letter. Either `body` or `base64` holds its body. Before version 3 it has no `firstDiedAt`."""

    job_id: str
    company_id: str
    queue: str
    track: Track
    body: str | None
    base64: str | None
    headers: dict[str, str]
    dedupe: str | None
    parent: str | None
    enqueued_at: int
    ttl_s: float
    due_at: int
    expires_at: int
    attempts: int
    crashes: int
    generation: int
    operation: str | None
    reason: Reason
    died_at: int
    fingerprint: str
    failures: tuple[ArchivedFailure, ...]
    redrives: tuple[ArchivedRedrive, ...]
    first_died_at: int | None = None


AnyLine = Header | Shared | Letter | Trailer
_encoder = msgspec.json.Encoder()
_decoder: msgspec.json.Decoder[AnyLine] = msgspec.json.Decoder(AnyLine)


def encode(line: AnyLine) -> bytes:
    """The line as it is written, with its end."""
    return _encoder.encode(line) + b"\n"


def decode(text: bytes) -> AnyLine:
    """The line, or ArchiveError saying what is wrong with it."""
    try:
        return _decoder.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ArchiveError(f"it is not a line of an archive ({error})") from None


def from_shared(parent: str, shared: bytes) -> Shared:
    """What the children of a parent share, as a line."""
    return Shared(parent, *_split(shared))


def to_shared(line: Shared) -> bytes:
    """What the children of a parent share, or ArchiveError."""
    return _join(line.body, line.base64)


def from_letter(letter: DeadLetter) -> Letter:
    """A letter as a line."""
    message, progress = letter.message, letter.progress
    body, encoded = _split(message.body)
    return Letter(
        job_id=message.id,
        company_id=message.tenant,
        queue=message.queue,
        track=message.track,
        body=body,
        base64=encoded,
        headers=dict(message.headers),
        dedupe=message.dedupe,
        parent=message.parent,
        enqueued_at=message.enqueued_at,
        ttl_s=message.ttl_s,
        due_at=progress.due_at,
        expires_at=progress.expires_at,
        attempts=progress.attempts,
        crashes=progress.crashes,
        generation=progress.generation,
        operation=progress.operation,
        reason=letter.reason,
        died_at=letter.died_at,
        fingerprint=letter.fingerprint,
        failures=tuple(map(_from_failure, letter.failures)),
        redrives=tuple(map(_from_redriven, letter.redrives)),
        first_died_at=letter.first_died_at,
    )


def to_letter(line: Letter, shared: bytes | None = None) -> DeadLetter:
    """The letter that a line tells of, equal to the one it was made from; or ArchiveError."""
    message = Message(
        id=line.job_id,
        queue=line.queue,
        tenant=line.company_id,
        body=_join(line.body, line.base64),
        enqueued_at=line.enqueued_at,
        ttl_s=line.ttl_s,
        track=line.track,
        dedupe=line.dedupe,
        headers=line.headers,
        parent=line.parent,
    )
    progress = Progress(
        state=State.DEAD,
        due_at=line.due_at,
        expires_at=line.expires_at,
        attempts=line.attempts,
        crashes=line.crashes,
        generation=line.generation,
        operation=line.operation,
    )
    failures = tuple(
        Failure(
            each.at,
            each.attempt,
            each.kind,
            each.reason,
            each.code,
            each.scope,
            each.fingerprint,
            each.traceback,
            each.duration_ms,
            each.delay_ms,
            each.delay_asked,
        )
        for each in line.failures
    )
    redrives = tuple(
        Redriven(each.at, each.generation, each.actor, each.operation, each.result) for each in line.redrives
    )
    first_died_at = line.first_died_at
    if first_died_at is None:
        first_died_at = first_death(line.died_at, failures, redrives)
    return DeadLetter(
        message,
        progress,
        line.reason,
        line.died_at,
        first_died_at,
        line.fingerprint,
        failures,
        redrives,
        shared,
    )


def _split(body: bytes) -> tuple[str | None, str | None]:
    try:
        return body.decode("utf-8"), None
    except UnicodeDecodeError:
        return None, base64.b64encode(body).decode("ascii")


def _join(body: str | None, encoded: str | None) -> bytes:
    if body is not None and encoded is None:
        return body.encode("utf-8")
    if encoded is None or body is not None:
        raise ArchiveError("a letter has its body either as text or in base64, and once")
    try:
        return base64.b64decode(encoded, validate=True)
    except binascii.Error as error:
        raise ArchiveError(f"its body is not base64 ({error})") from None


def _from_failure(failure: Failure) -> ArchivedFailure:
    return ArchivedFailure(
        failure.at,
        failure.attempt,
        failure.kind,
        failure.reason,
        failure.code,
        failure.scope,
        failure.fingerprint,
        failure.traceback,
        failure.duration_ms,
        failure.delay_ms,
        failure.delay_asked,
    )


def _from_redriven(redriven: Redriven) -> ArchivedRedrive:
    return ArchivedRedrive(
        redriven.at, redriven.generation, redriven.actor, redriven.operation, redriven.result
    )
