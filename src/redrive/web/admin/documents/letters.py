"""Queues, letters and messages on the wire."""

from __future__ import annotations

from typing import Any

import msgspec

from redrive.web.admin.documents.document import Document


class QueueSummary(Document, frozen=True):
    """A queue; with a bound key, the tenant's part of it. `dlq` counts its dead letters."""

    queue: str
    state: str
    waiting: int
    processing: int
    published: int
    dlq: int


class QueueList(Document, frozen=True):
    """The queues."""

    queues: list[QueueSummary]


class FailureDocument(Document, frozen=True):
    """One failed attempt."""

    timestamp: str
    attempt: int
    kind: str
    code: str | None
    reason: str
    scope: str | None
    fingerprint: str
    traceback: str | None


class RedriveDocument(Document, frozen=True):
    """One re-drive and what came of it."""

    timestamp: str
    generation: int
    actor: str
    operation: str | None
    result: str


class LetterDocument(Document, frozen=True):
    """A dead letter. `originalData` is masked unless revealed; in lists a large one is `{"leftOut": …}`."""

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
    ttl: int
    generation: int
    fingerprint: str
    failures: list[FailureDocument]
    redrives: list[RedriveDocument]


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


class LetterPage(Document, frozen=True):
    """A page; `cursor` is null at the end. `behind`: newer deaths may be missing for a moment.

    `notice` is there when less was searched than the filter says, `empty` when it finds nothing at all.
    """

    letters: list[LetterDocument]
    cursor: str | None
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
    """A message in any state, and in words why it waits or what became of it."""

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
    finished_at: str | None
    removal: RemovalDocument | None
    failures: list[FailureDocument]
    redrives: list[RedriveDocument]
    why: str


SCHEMAS = (
    QueueList,
    LetterPage,
    ShownLetter,
    QueueMessages,
    ShownMessage,
)
