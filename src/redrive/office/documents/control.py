"""Queues, tenants and what is announced of their letters, as they go out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from redrive.core.lanes import Lane
from redrive.core.values import instant
from redrive.office.documents.document import Document

if TYPE_CHECKING:
    from redrive.office.queues import QueuePart, QueueStatus
    from redrive.office.retention.notice import Notice


class BrokerDepth(Document, frozen=True):
    """What a broker has in a queue and in its dead-letter queue, not yet collected; null: no such queue."""

    waiting: int | None
    dlq: int | None


class QueueSummary(Document, frozen=True):
    """A queue; with a bound key, the tenant's part of it. `dlq` counts its dead letters."""

    queue: str
    state: str
    waiting: int
    processing: int
    published: int
    dlq: int
    broker: BrokerDepth | None = None


class QueueList(Document, frozen=True):
    """The queues."""

    queues: list[QueueSummary]


class QueueState(Document, frozen=True):
    """Whether a queue hands out messages."""

    queue: str
    state: str


class PurgedQueue(Document, frozen=True):
    """How many waiting messages of a queue were removed."""

    queue: str
    removed: int


class DeletedQueue(Document, frozen=True):
    """A queue that is gone, and how many finished records went with it."""

    queue: str
    removed: int


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
    """A tenant in a queue: its counters and its switches.

    `consecutiveBatchCount`: messages handed out to it in a row until now; 0 once another tenant was served.
    """

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


class QueueCountsList(Document, frozen=True):
    """Every queue with its counts."""

    queues: list[QueueCountsDocument]


class LaneList(Document, frozen=True):
    """Tenants in queues."""

    lanes: list[LaneDocument]


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


SCHEMAS = (
    QueueList,
    QueueState,
    DeletedQueue,
    TenantLanes,
    TenantPage,
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
                broker=None
                if one.broker_waiting is None and one.broker_dead is None
                else BrokerDepth(waiting=one.broker_waiting, dlq=one.broker_dead),
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


def queue_counts_list(found: Iterable[QueueStatus]) -> QueueCountsList:
    """Every queue, and who serves it."""
    return QueueCountsList(queues=[queue_document(one) for one in found])


def lane_list(lanes: Iterable[Lane]) -> LaneList:
    """Tenants in queues."""
    return LaneList(lanes=[lane_document(lane) for lane in lanes])


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


def notice_document(notice: Notice) -> NoticeDocument:
    """The same for callers: where archives lie is not their business."""
    return NoticeDocument(
        queue=notice.queue,
        leave_at=instant(notice.leave_at),
        for_age=notice.aged,
        for_number=notice.excess,
        left=notice.left,
        left_at=instant(notice.left_at),
    )
