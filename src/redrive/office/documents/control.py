"""Queues, tenants, keys, status, the audit and SQL as they go out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from redrive.core.lanes import Lane
from redrive.core.records import JournalRow
from redrive.office.documents.document import Document, instant

if TYPE_CHECKING:
    from redrive.office.access import Credential
    from redrive.office.chain import Verification
    from redrive.office.queues import QueuePart, QueueStatus, StoreStatus
    from redrive.office.retention.notice import Notice
    from redrive.office.sql import SqlAnswer


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


class QueueState(Document, frozen=True):
    """Whether a queue hands out messages."""

    queue: str
    state: str


class QueueCountsDocument(Document, frozen=True):
    """A queue's counts, and how many live workers serve it; `failed` is always 0."""

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


class NoticeDocument(Document, frozen=True):
    """Letters that will leave for an archive, and those that left last."""

    queue: str
    leave_at: str
    for_age: int
    for_number: int
    left: int
    left_at: str | None


class WholeNotice(NoticeDocument, frozen=True):
    """The same for people on the machine, with where archives lie and what is wrong."""

    shared: int
    folder: str | None
    problem: str | None
    left_to: str | None
    text: list[str]


class StatusDocument(Document, frozen=True):
    """How the store and its queues stand."""

    durability: str
    used_bytes: int
    limit_bytes: int | None
    accepts: bool
    queues: list[QueueCountsDocument]
    retention: list[NoticeDocument]


class KeyDocument(Document, frozen=True):
    """A key of the API, without its text. `lastUsedAt` is right to a minute.

    `fromDomains` and `queues` limit a submit key; empty: the tenant's domains, and queues that are known.
    """

    id: str
    role: str
    company_id: str | None
    name: str
    created_at: str
    expires_at: str | None
    revoked_at: str | None
    last_used_at: str | None
    reveal: bool
    from_domains: list[str]
    queues: list[str]


class KeyList(Document, frozen=True):
    """Keys, the oldest first."""

    keys: list[KeyDocument]


class NewKey(Document, frozen=True):
    """A new key with its text, which cannot be shown again."""

    key: str
    about: KeyDocument


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


SCHEMAS = (
    QueueList,
    QueueState,
    TenantLanes,
    TenantPage,
    StatusDocument,
    KeyDocument,
    KeyList,
    NewKey,
    AuditPage,
    VerificationDocument,
    SqlDocument,
)


def queue_list(queues: Iterable[QueuePart]) -> QueueList:
    """The queues, or a tenant's part of them."""
    return QueueList(
        queues=[
            QueueSummary(
                queue=one.queue,
                state=one.state.value,
                waiting=one.waiting,
                processing=one.processing,
                published=one.published,
                dlq=one.dead,
            )
            for one in queues
        ]
    )


def queue_document(status: QueueStatus) -> QueueCountsDocument:
    """A queue and who serves it."""
    counts = status.counts
    return QueueCountsDocument(
        queue=counts.queue,
        state=counts.state.value,
        pending=counts.pending,
        scheduled=counts.scheduled,
        retry_scheduled=counts.retry_scheduled,
        processing=counts.processing,
        published=counts.published,
        dlq=counts.dlq,
        failed=0,
        suspects=counts.suspects,
        oldest_due_at=instant(counts.oldest_due_at),
        workers=status.workers,
        no_handler=status.no_handler,
    )


def lane_document(lane: Lane) -> LaneDocument:
    """A tenant in a queue."""
    return LaneDocument(
        company_id=lane.tenant,
        queue=lane.queue,
        state=lane.state.value,
        last_processed_at=instant(lane.last_served_at),
        rounds_without_processing=lane.rounds_waited,
        current_priority=lane.priority,
        total_processed=lane.done,
        consecutive_batch_count=lane.consecutive,
        waiting=lane.waiting,
        in_flight=lane.in_flight,
        dead=lane.dead,
        weight=lane.weight,
        cap=lane.cap,
        rate=None if lane.rate is None else str(lane.rate),
        held_reason=lane.held_reason,
        probe_at=instant(lane.probe_at),
    )


def tenant_lanes(tenant: str, lanes: Sequence[Lane]) -> TenantLanes:
    """A tenant in each of its queues."""
    return TenantLanes(company_id=tenant, queues=[lane_document(lane) for lane in lanes])


def whole_notice(notice: Notice) -> WholeNotice:
    """What is announced of a queue."""
    return WholeNotice(
        queue=notice.queue,
        leave_at=instant(notice.leave_at),
        for_age=notice.aged,
        for_number=notice.excess,
        shared=notice.shared,
        folder=notice.folder,
        problem=notice.problem or None,
        left=notice.left,
        left_at=instant(notice.left_at),
        left_to=notice.left_to,
        text=notice.sentences(),
    )


def status_document(status: StoreStatus) -> StatusDocument:
    """How all stands; where archives lie is not a caller's business."""
    return StatusDocument(
        durability=status.described.durability.value,
        used_bytes=status.capacity.used_bytes,
        limit_bytes=status.capacity.limit_bytes,
        accepts=status.capacity.accepts,
        queues=[queue_document(one) for one in status.queues],
        retention=[
            NoticeDocument(
                queue=one.queue,
                leave_at=instant(one.leave_at),
                for_age=one.aged,
                for_number=one.excess,
                left=one.left,
                left_at=instant(one.left_at),
            )
            for one in status.notices
        ],
    )


def key_document(key: Credential) -> KeyDocument:
    """A key, without its text."""
    return KeyDocument(
        id=key.id,
        role=key.role.value,
        company_id=key.tenant,
        name=key.name,
        created_at=instant(key.created_at),
        expires_at=instant(key.expires_at),
        revoked_at=instant(key.revoked_at),
        last_used_at=instant(key.used_at),
        reveal=key.reveal,
        from_domains=list(key.senders.domains),
        queues=list(key.queues.patterns),
    )


def key_list(keys: Iterable[Credential]) -> KeyList:
    """Keys, the oldest first."""
    return KeyList(keys=[key_document(key) for key in sorted(keys, key=lambda key: key.created_at)])


def row_document(row: JournalRow) -> dict[str, Any]:
    """A row of the audit as it stands, with its position, and its instant as its hash covers it."""
    at = int(row.document.get("at", row.at))
    return {**row.document, "position": row.position, "at": instant(at)}


def verification_document(found: Verification) -> VerificationDocument:
    """What reading the whole audit came to."""
    return VerificationDocument(
        whole=found.whole,
        rows=found.rows,
        unchained=found.unchained,
        faults=[FaultDocument(row=fault.position, what=fault.what) for fault in found.faults],
        head=str(found.head),
    )


def sql_document(answer: SqlAnswer) -> SqlDocument:
    """The answer to one SELECT."""
    return SqlDocument(
        columns=list(answer.columns),
        rows=[list(row) for row in answer.rows],
        complete=answer.complete,
        letters=CopiedDocument(copied=answer.copied.letters, of=answer.copied.of),
    )
