"""The audit, SQL, tenants and status on the wire."""

from __future__ import annotations

from typing import Any

from redrive.web.admin.documents.document import Document


class AuditPage(Document, frozen=True):
    """Rows of the audit, the newest first; `cursor` is null at the end."""

    rows: list[dict[str, Any]]
    cursor: int | None


class FaultDocument(Document, frozen=True):
    """What is wrong at a row."""

    row: int
    what: str


class VerificationDocument(Document, frozen=True):
    """Whether the audit is whole. Keep `head` in another place, and hand it in the next time."""

    whole: bool
    rows: int
    unchained: int
    faults: list[FaultDocument]
    head: str


class CopiedDocument(Document, frozen=True):
    """Of how many letters an answer speaks."""

    copied: int
    of: int


class SqlDocument(Document, frozen=True):
    """The rows found; not `complete` when rows or letters were left out at a limit."""

    columns: list[str]
    rows: list[list[Any]]
    complete: bool
    letters: CopiedDocument


class QueueState(Document, frozen=True):
    """Whether a queue hands out messages."""

    queue: str
    state: str


class LaneDocument(Document, frozen=True):
    """A tenant in a queue: its counters and its switches."""

    company_id: str
    queue: str
    state: str
    last_processed_at: str | None
    rounds_without_processing: int
    current_priority: int
    total_processed: int
    consecutive_batch_count: int
    waiting: int
    in_flight: int
    dead: int
    weight: int
    cap: int | None
    rate: str | None
    held_reason: str | None
    probe_at: str | None


class TenantLanes(Document, frozen=True):
    """A tenant, queue by queue."""

    company_id: str
    queues: list[LaneDocument]


class TenantPage(Document, frozen=True):
    """The tenants of a queue by name; `cursor` is null at the end."""

    queue: str
    tenants: list[LaneDocument]
    cursor: str | None


class QueueCountsDocument(Document, frozen=True):
    """A queue's counts, and how many live workers serve it."""

    queue: str
    state: str
    pending: int
    scheduled: int
    retry_scheduled: int
    processing: int
    published: int
    dlq: int
    failed: int
    suspects: int
    oldest_due_at: str | None
    workers: int
    no_handler: bool


class NoticeDocument(Document, frozen=True):
    """Letters that will leave for an archive, and those that left last."""

    queue: str
    leave_at: str
    for_age: int
    for_number: int
    left: int
    left_at: str | None


class StatusDocument(Document, frozen=True):
    """How the store and its queues stand."""

    durability: str
    used_bytes: int
    limit_bytes: int | None
    accepts: bool
    queues: list[QueueCountsDocument]
    retention: list[NoticeDocument]


SCHEMAS = (
    AuditPage,
    VerificationDocument,
    SqlDocument,
    QueueState,
    TenantLanes,
    TenantPage,
    StatusDocument,
)
