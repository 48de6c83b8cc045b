"""The overview as it goes out: `redrive status --json`, `GET /admin/dlq/status`, the first page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from redrive.core.condition import Capacity
from redrive.core.totals import Minute
from redrive.core.values import instant
from redrive.office.documents.alerts import AlertDocument
from redrive.office.documents.control import (
    NoticeDocument,
    QueueCountsDocument,
    notice_document,
    queue_document,
    whole_notice,
)
from redrive.office.documents.document import Document
from redrive.office.documents.groups import GroupDocument, group_document
from redrive.office.documents.operations import OperationDocument

if TYPE_CHECKING:
    from redrive.office.overview import StoreOverview
    from redrive.office.queues import LiveWorker
    from redrive.office.standings import TenantStanding


class CapacityDocument(Document, frozen=True):
    """How full the store is; a null is what it cannot tell, and no limit."""

    used_bytes: int
    limit_bytes: int | None
    waiting_bytes: int | None
    finished_bytes: int | None
    dead_bytes: int | None
    accepts: bool
    note: str


class FlowCounts(Document, frozen=True):
    """What became of messages: `released` were given back without counting an attempt."""

    accepted: int
    done: int
    retried: int
    dead: int
    released: int


class MinuteDocument(FlowCounts, frozen=True):
    """What became of messages within the minute that began `at`."""

    at: str


class QueueFlow(FlowCounts, frozen=True):
    """What became of a queue's messages within the last hour; `other` are those that are counted together."""

    queue: str


class TenantStandingDocument(Document, frozen=True):
    """A tenant over all queues: `share` is its part of all that came to an end, 0 to 1, since counting began.

    `turn` is its place in line where it comes first, 1 is next; null while it does not wait for a turn.
    `roundsWithoutProcessing` and `currentPriority` are those of the queue in which it waits longest.
    """

    company_id: str
    waiting: int
    in_flight: int
    dead: int
    total_processed: int
    share: float
    turn: int | None
    rounds_without_processing: int
    current_priority: int
    last_processed_at: str | None


class WorkerDocument(Document, frozen=True):
    """A live worker; what it does not say of itself is null. `loopLagSeconds`: the longest wait for its loop
    in the last seconds."""

    name: str
    host: str
    pid: int
    queues: list[str]
    handlers_running: int | None
    handlers_limit: int | None
    loop_lag_seconds: float | None


class OverviewDocument(Document, frozen=True):
    """How all stands. `minutes` are the last 60, the running one last; `totals` count since the beginning.

    `countedTogether` are the queues beyond the first 100: in `lastHour` they are one, `other`. `alerts` are
    those that fire. `groups` are the five largest, by cause; null where there are too many
    letters to count them in time, and without some while the index is `behind`.
    """

    at: str
    durability: str
    capacity: CapacityDocument
    queues: list[QueueCountsDocument]
    totals: FlowCounts
    minutes: list[MinuteDocument]
    last_hour: list[QueueFlow]
    counted_together: list[str]
    groups: list[GroupDocument] | None
    behind: bool
    tenants: list[TenantStandingDocument]
    alerts: list[AlertDocument]
    operations: list[OperationDocument]
    workers: list[WorkerDocument]
    retention: list[NoticeDocument]


class WholeOverview(OverviewDocument, frozen=True):
    """The same for people on the machine: where the store and the archives lie, and what to look into."""

    store: str
    warnings: list[str]


SCHEMAS = (OverviewDocument,)


def overview_document(
    seen: StoreOverview, operations: list[OperationDocument], *, whole: bool
) -> OverviewDocument:
    """How all stands; where files lie is for people on the machine."""
    fields: dict[str, Any] = {
        "at": instant(seen.at),
        "durability": seen.described.durability.value,
        "capacity": _capacity(seen.capacity),
        "queues": [queue_document(one) for one in seen.queues],
        "totals": FlowCounts(**{flow.value: seen.totals[flow] for flow in seen.totals}),
        "minutes": [MinuteDocument(at=instant(one.at), **_counts(one)) for one in seen.minutes],
        "last_hour": [QueueFlow(queue=one.queue, **_counts(one)) for one in seen.last_hour],
        "counted_together": list(seen.counted_together),
        "groups": None if seen.groups is None else [group_document(one) for one in seen.groups],
        "behind": seen.behind,
        "tenants": [_tenant(one, seen.share(one)) for one in seen.tenants],
        "alerts": list(seen.alerts),
        "operations": operations,
        "workers": [_worker(one) for one in seen.workers],
    }
    if not whole:
        return OverviewDocument(**fields, retention=[notice_document(one) for one in seen.notices])
    return WholeOverview(
        **fields,
        retention=[whole_notice(one) for one in seen.notices],
        store=seen.described.url,
        warnings=list(seen.warnings),
    )


def _capacity(capacity: Capacity) -> CapacityDocument:
    return CapacityDocument(
        used_bytes=capacity.used_bytes,
        limit_bytes=capacity.limit_bytes,
        waiting_bytes=capacity.waiting_bytes,
        finished_bytes=capacity.finished_bytes,
        dead_bytes=capacity.dead_bytes,
        accepts=capacity.accepts,
        note=capacity.note,
    )


def _counts(minute: Minute) -> dict[str, int]:
    return {
        "accepted": minute.accepted,
        "done": minute.done,
        "retried": minute.retried,
        "dead": minute.dead,
        "released": minute.released,
    }


def _tenant(one: TenantStanding, share: float) -> TenantStandingDocument:
    return TenantStandingDocument(
        company_id=one.tenant,
        waiting=one.waiting,
        in_flight=one.in_flight,
        dead=one.dead,
        total_processed=one.processed,
        share=round(share, 4),
        turn=one.turn,
        rounds_without_processing=one.rounds_waited,
        current_priority=one.priority,
        last_processed_at=instant(one.last_served_at),
    )


def _worker(one: LiveWorker) -> WorkerDocument:
    return WorkerDocument(
        name=one.name,
        host=one.host,
        pid=one.pid,
        queues=list(one.queues),
        handlers_running=one.running,
        handlers_limit=one.limit,
        loop_lag_seconds=one.lag_s,
    )
