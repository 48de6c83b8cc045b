"""What of an overview someone should look into, the worst first: the answer to "is anything wrong?".

Judges what the overview says and reads nothing itself. Dead letters are a concern however few: each waits for
a person.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from redrive.core.lanes import LaneState
from redrive.office.documents.overview import OverviewDocument
from redrive.office.operations.operation import OperationState


class ConcernKind(StrEnum):
    """What is wrong; those that stop work come first."""

    STORE_FULL = "store_full"
    NO_HANDLER = "no_handler"
    HALTED = "halted"
    UNATTENDED = "unattended"
    SUSPECTS = "suspects"
    PAUSED = "paused"
    DEAD_LETTERS = "dead_letters"


GRAVE = frozenset({ConcernKind.STORE_FULL, ConcernKind.NO_HANDLER, ConcernKind.HALTED})
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
    states = {
        ConcernKind.HALTED: [one.id for one in seen.operations if one.state == OperationState.HALTED],
        ConcernKind.UNATTENDED: [one.id for one in seen.operations if one.unattended],
        ConcernKind.NO_HANDLER: [one.queue for one in seen.queues if one.no_handler],
        ConcernKind.PAUSED: [one.queue for one in seen.queues if one.state != LaneState.RUNNING],
    }
    counts = {
        ConcernKind.STORE_FULL: int(not seen.capacity.accepts),
        ConcernKind.SUSPECTS: sum(one.suspects for one in seen.queues),
        ConcernKind.DEAD_LETTERS: sum(one.dlq for one in seen.queues),
    }
    found = [Concern(kind, len(names), names[0]) for kind, names in states.items() if names]
    found += [Concern(kind, count) for kind, count in counts.items() if count]
    order = list(ConcernKind)
    return sorted(found, key=lambda one: order.index(one.kind))
