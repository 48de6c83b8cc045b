"""Letters and messages as they go out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import asdict

from redrive.core.errors import InvalidMessage
from redrive.core.failure import Failure, Kind
from redrive.core.letters import Account, DeadLetter, Redriven, Removal
from redrive.core.message import check_queue, check_tenant
from redrive.core.values import instant
from redrive.office.documents.document import Document, whole_payload
from redrive.office.masking import Mask

if TYPE_CHECKING:
    from redrive.office.emptiness import Emptiness

_COUNTED = frozenset((Kind.TEMPORARY, Kind.PERMANENT, Kind.UNCERTAIN))


class FailureDocument(Document, frozen=True):
    """One failed attempt. `durationMs`: how long it ran; null where that is not known.

    `delayMs`: the delay chosen before the next attempt, null after the last; `delayAsked`: it follows what
    the handler or the other side asked for, not the retry policy.
    """

    timestamp: str
    attempt: int
    kind: str
    code: str | None
    reason: str
    scope: str | None
    fingerprint: str
    traceback: str | None
    duration_ms: int | None = None
    delay_ms: int | None = None
    delay_asked: bool = False


class RedriveDocument(Document, frozen=True):
    """One re-drive and what came of it."""

    timestamp: str
    generation: int
    actor: str
    operation: str | None
    result: str


class LetterDocument(Document, frozen=True):
    """A dead letter. `originalData` is masked unless revealed; in lists a large one is `{"leftOut": …}`.

    `movedToDLQAt` is its latest death, `firstDiedAt` the one before any re-drive. `ttl`: for how many
    milliseconds dead letters are kept; null is without end.
    """

    job_id: str
    outbox_id: str
    company_id: str
    queue: str
    reason: str
    original_data: Any
    failed_attempts: int
    last_failure_reason: str
    last_failure_code: str | None
    last_failure_timestamp: str
    enqueued_at: str
    moved_to_dlq_at: str = msgspec.field(name="movedToDLQAt")
    first_died_at: str
    ttl: int | None
    generation: int
    fingerprint: str
    failures: list[FailureDocument]
    redrives: list[RedriveDocument]


def check_entry(entry: Mapping[str, Any] | bytes | str) -> LetterDocument:
    """A dead letter as our JSON has it (`redrive dlq list --json`), or InvalidMessage with what is wrong."""
    try:
        if isinstance(entry, bytes | str):
            read = msgspec.json.decode(entry, type=LetterDocument)
        else:
            read = msgspec.convert(dict(entry), LetterDocument)
        moments = (read.last_failure_timestamp, read.enqueued_at, read.moved_to_dlq_at, read.first_died_at)
        for moment in moments:
            datetime.fromisoformat(moment)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise InvalidMessage(f"this is not a dead-letter entry: {error}") from None
    check_tenant(read.company_id)
    check_queue(read.queue)
    if read.failed_attempts < 0:
        raise InvalidMessage("this is not a dead-letter entry: failedAttempts is below 0")
    return read


class ShownLetter(LetterDocument, frozen=True):
    """A dead letter, and in words why it died and what helps."""

    why: str


class LookedDocument(Document, frozen=True):
    """How far a search through payloads has looked: its page may be short and have a cursor."""

    letters: int
    of: int


class TermAloneDocument(Document, frozen=True):
    """How many letters a term of a filter finds without the others; null where that takes too long."""

    term: str
    letters: int | None


class NearValueDocument(Document, frozen=True):
    """A value that there is, and how many letters have it."""

    value: str
    letters: int


class NearDocument(Document, frozen=True):
    """A value that no letter has, and the values most like it, or else (`alike` false) the most frequent."""

    field: str
    value: str
    alike: bool
    values: list[NearValueDocument]


class EmptyDocument(Document, frozen=True):
    """Why a filter finds nothing, of the letters that the caller may see."""

    terms: list[TermAloneDocument]
    near: list[NearDocument]


class LetterPageDocument(Document, frozen=True):
    """A page; `cursor` is null at the end. `behind`: newer deaths may be missing for a moment.

    `total`: how many the filter finds in all, on the first page; null where counting them would take long.
    `notice` is there when less was searched than the filter says, `empty` when it finds nothing at all.
    """

    letters: list[LetterDocument]
    cursor: str | None
    total: int | None
    looked: LookedDocument | None
    behind: bool
    notice: str | None
    empty: EmptyDocument | None


class QueueMessages(Document, frozen=True):
    """A page of a queue's letters; `cursor` is null at the end."""

    queue: str
    messages: list[LetterDocument]
    cursor: str | None


class RemovalDocument(Document, frozen=True):
    """Who removed a message, and how."""

    at: str
    move: str
    actor: str


class ShownMessage(Document, frozen=True):
    """A message in any state, and in words why it waits or what became of it.

    `replacedBy`: the new message in place of a letter that was edited or re-driven to another queue.
    """

    job_id: str
    company_id: str
    queue: str
    track: str
    state: str
    attempts: int
    crashes: int
    generation: int
    dedupe: str | None
    headers: dict[str, Any]
    original_data: Any
    enqueued_at: str
    due_at: str | None
    expires_at: str | None
    lease_until: str | None
    reason: str | None
    moved_to_dlq_at: str | None = msgspec.field(name="movedToDLQAt")
    first_died_at: str | None
    finished_at: str | None
    removal: RemovalDocument | None
    replaced_by: str | None
    failures: list[FailureDocument]
    redrives: list[RedriveDocument]
    why: str


SCHEMAS = (LetterPageDocument, ShownLetter, QueueMessages, ShownMessage)


def letter_document(letter: DeadLetter, mask: Mask, ttl_ms: int | None) -> LetterDocument:
    """A dead letter as the mask shows it."""
    message = letter.message
    last = letter.failures[-1] if letter.failures else None
    return LetterDocument(
        job_id=message.id,
        outbox_id=message.id,
        company_id=message.tenant,
        queue=message.queue,
        reason=letter.reason.value,
        original_data=mask.payload(whole_payload(message.body, letter.shared)),
        failed_attempts=failed_attempts(letter),
        last_failure_reason=mask.text(last.reason if last else letter.reason.value),
        last_failure_code=last.code if last else None,
        last_failure_timestamp=instant(last.at if last else letter.died_at),
        enqueued_at=instant(message.enqueued_at),
        moved_to_dlq_at=instant(letter.died_at),
        first_died_at=instant(letter.first_died_at),
        ttl=ttl_ms,
        generation=letter.progress.generation,
        fingerprint=letter.fingerprint,
        failures=_failures(letter.failures, mask),
        redrives=_redrives(letter.redrives),
    )


def shown_letter(letter: DeadLetter, mask: Mask, ttl_ms: int | None, why: str) -> ShownLetter:
    """A dead letter with why it died, which quotes nobody's data unmasked."""
    return ShownLetter(**asdict(letter_document(letter, mask, ttl_ms)), why=why)


def shown_message(account: Account, mask: Mask, why: str) -> ShownMessage:
    """The whole life of one message."""
    message, progress, removal = account.message, account.progress, account.removal
    return ShownMessage(
        job_id=message.id,
        company_id=message.tenant,
        queue=message.queue,
        track=message.track.value,
        state=progress.state.value,
        attempts=progress.attempts,
        crashes=account.lost_workers,
        generation=progress.generation,
        dedupe=None if message.dedupe is None else mask.text(message.dedupe),
        headers=mask.fields(message.headers),
        original_data=_kept(account, mask),
        enqueued_at=instant(message.enqueued_at),
        due_at=instant(progress.due_at),
        expires_at=instant(progress.expires_at),
        lease_until=instant(account.lease_until_at),
        reason=account.reason.value if account.reason else None,
        moved_to_dlq_at=instant(account.died_at),
        first_died_at=instant(account.first_died_at),
        finished_at=instant(account.finished_at),
        removal=None if removal is None else _removal(removal),
        replaced_by=account.replaced_by,
        failures=_failures(account.failures, mask),
        redrives=_redrives(account.redrives),
        why=why,
    )


def empty_document(found: Emptiness | None) -> EmptyDocument | None:
    """Why a filter finds nothing; None where it finds something."""
    if found is None:
        return None
    return EmptyDocument(
        terms=[TermAloneDocument(term=one.term, letters=one.letters) for one in found.terms],
        near=[
            NearDocument(
                field=one.field,
                value=one.value,
                alike=one.alike,
                values=[NearValueDocument(value=value, letters=letters) for value, letters in one.values],
            )
            for one in found.near
        ],
    )


def failed_attempts(letter: DeadLetter) -> int:
    """How many attempts failed since the last re-drive."""
    since_at = letter.redrives[-1].at if letter.redrives else 0
    return sum(failure.kind in _COUNTED and failure.at >= since_at for failure in letter.failures)


def _kept(account: Account, mask: Mask) -> Any:
    """The payload, unless the record has none any more."""
    body = account.message.body
    return mask.payload(whole_payload(body, account.shared)) if body else None


def _removal(removal: Removal) -> RemovalDocument:
    return RemovalDocument(at=instant(removal.at), move=removal.move.value, actor=removal.actor)


def _failures(failures: Sequence[Failure], mask: Mask) -> list[FailureDocument]:
    return [
        FailureDocument(
            timestamp=instant(one.at),
            attempt=one.attempt,
            kind=one.kind.value,
            code=one.code,
            reason=mask.text(one.reason),
            scope=one.scope.value if one.scope else None,
            fingerprint=one.fingerprint,
            traceback=None if one.traceback is None else mask.text(one.traceback),
            duration_ms=one.duration_ms,
            delay_ms=one.delay_ms,
            delay_asked=one.delay_asked,
        )
        for one in failures
    ]


def _redrives(redrives: Sequence[Redriven]) -> list[RedriveDocument]:
    return [
        RedriveDocument(
            timestamp=instant(one.at),
            generation=one.generation,
            actor=one.actor,
            operation=one.operation,
            result=one.result.value,
        )
        for one in redrives
    ]
