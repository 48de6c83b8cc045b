"""What of an overview someone should look into, the worst first: the answer to "is anything wrong?".

Judges what the overview says and reads nothing itself. Dead letters are a concern however few: each waits for
a person. An alert is one while it fires, unless it only informs or somebody silenced it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from redrive.core.alerts import AlertPhase, AlertSeverity
from redrive.core.lanes import LaneState
from redrive.office.documents.alerts import AlertDocument
from redrive.office.documents.control import QueueCountsDocument, QueueSummary
from redrive.office.documents.operations import OperationDocument
from redrive.office.documents.overview import OverviewDocument
from redrive.office.operations.operation import OperationState


class ConcernKind(StrEnum):
    """What is wrong; those that stop work come first."""

    STORE_FULL = "store_full"
    NO_HANDLER = "no_handler"
    CRITICAL_ALERTS = "critical_alerts"
    HALTED = "halted"
    UNATTENDED = "unattended"
    SUSPECTS = "suspects"
    PAUSED = "paused"
    ALERTS = "alerts"
    DEAD_LETTERS = "dead_letters"


GRAVE = frozenset(
    {ConcernKind.STORE_FULL, ConcernKind.NO_HANDLER, ConcernKind.CRITICAL_ALERTS, ConcernKind.HALTED}
)
"""Those for which someone should come at once."""


@dataclass(frozen=True, slots=True)
class Concern:
    """One thing to look into: how many there are, and the name of the first."""

    kind: ConcernKind
    count: int
    name: str = ""

    @property
    def grave(self) -> bool:
        return self.kind in GRAVE


def concerns(seen: OverviewDocument) -> list[Concern]:
    """Everything to look into; empty: nothing."""
    return _sorted(
        {
            **_shared(seen.queues, seen.operations, seen.alerts),
            ConcernKind.NO_HANDLER: [one.queue for one in seen.queues if one.no_handler],
        },
        {
            ConcernKind.STORE_FULL: int(not seen.capacity.accepts),
            ConcernKind.SUSPECTS: sum(one.suspects for one in seen.queues),
            ConcernKind.DEAD_LETTERS: sum(one.dlq for one in seen.queues),
        },
    )


def tenant_concerns(
    queues: Sequence[QueueSummary], operations: Sequence[OperationDocument], alerts: Sequence[AlertDocument]
) -> list[Concern]:
    """The same of what one tenant sees: its part of the queues, its operations and alerts."""
    dead = {ConcernKind.DEAD_LETTERS: sum(one.dlq for one in queues)}
    return _sorted(_shared(queues, operations, alerts), dead)


def _shared(
    queues: Sequence[QueueCountsDocument] | Sequence[QueueSummary],
    operations: Sequence[OperationDocument],
    alerts: Sequence[AlertDocument],
) -> dict[ConcernKind, list[str]]:
    firing = [one for one in alerts if one.state == AlertPhase.FIRING and not one.silenced]
    return {
        ConcernKind.HALTED: [one.id for one in operations if one.state == OperationState.HALTED],
        ConcernKind.UNATTENDED: [one.id for one in operations if one.unattended],
        ConcernKind.PAUSED: [one.queue for one in queues if one.state != LaneState.RUNNING],
        ConcernKind.CRITICAL_ALERTS: [one.alert for one in firing if one.severity == AlertSeverity.CRITICAL],
        ConcernKind.ALERTS: [one.alert for one in firing if one.severity == AlertSeverity.WARNING],
    }


def _sorted(names: dict[ConcernKind, list[str]], counts: dict[ConcernKind, int]) -> list[Concern]:
    found = [Concern(kind, len(some), some[0]) for kind, some in names.items() if some]
    found += [Concern(kind, count) for kind, count in counts.items() if count]
    order = list(ConcernKind)
    return sorted(found, key=lambda one: order.index(one.kind))
