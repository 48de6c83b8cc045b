"""What happened, added up: the words that processes count by, and what a store keeps of it.

Everything is a whole number: a histogram is a count a bucket, and a sum in millionths. How many different
labels there may be is bounded, because each one is a line that somebody scrapes and pays for.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from msgspec import Struct

OTHER = "other"
"""The label of whatever came when all labels of its kind were given."""

SUM = "sum"
"""The part of a histogram that is the sum of what was measured, in millionths."""

MILLIONTHS = 1_000_000
MINUTE_MS = 60_000
MINUTES_KEPT_MS = 7 * 86_400_000


class LabelKind(StrEnum):
    """What a total is about."""

    NONE = ""
    QUEUE = "queue"
    TENANT = "tenant"
    CODE = "code"


LABEL_LIMITS: Mapping[LabelKind, int] = {
    LabelKind.NONE: 1,
    LabelKind.QUEUE: 100,
    LabelKind.TENANT: 50,
    LabelKind.CODE: 50,
}
"""How many labels of a kind are given; once given, a label stays, a queue's until the queue is deleted."""


class Flow(StrEnum):
    """What became of messages, by queue. Kept by the minute too."""

    ACCEPTED = "accepted"
    DONE = "done"
    RETRIED = "retried"
    DEAD = "dead"
    RELEASED = "released"


class Occurrence(StrEnum):
    """What else is counted: attempts by number, failures by code and kind, the dead by code and tenant."""

    ATTEMPTS = "attempts"
    SUCCEEDED = "succeeded"
    FAILURES = "failures"
    DEAD_BY_CODE = "dead_by_code"
    DEAD_BY_TENANT = "dead_by_tenant"
    PROCESSED = "processed"
    STALE_SETTLES = "stale_settles"
    LEASE_EXTENSIONS = "lease_extensions"
    LEASES_LOST = "leases_lost"
    HOOKS_DROPPED = "hooks_dropped"


class Measured(StrEnum):
    """What is measured into a histogram: seconds, or the messages of a claim."""

    HANDOVER = "handover"
    HANDLER = "handler"
    SETTLE = "settle"
    CLAIM = "claim"
    BACKOFF = "backoff"
    LATENESS = "lateness"


_COUNTED_KINDS: Mapping[Occurrence, LabelKind] = {
    Occurrence.ATTEMPTS: LabelKind.NONE,
    Occurrence.SUCCEEDED: LabelKind.NONE,
    Occurrence.FAILURES: LabelKind.CODE,
    Occurrence.DEAD_BY_CODE: LabelKind.CODE,
    Occurrence.DEAD_BY_TENANT: LabelKind.TENANT,
    Occurrence.PROCESSED: LabelKind.TENANT,
    Occurrence.STALE_SETTLES: LabelKind.NONE,
    Occurrence.LEASE_EXTENSIONS: LabelKind.NONE,
    Occurrence.LEASES_LOST: LabelKind.NONE,
    Occurrence.HOOKS_DROPPED: LabelKind.NONE,
}
_MEASURED_KINDS: Mapping[Measured, LabelKind] = {
    Measured.HANDOVER: LabelKind.QUEUE,
    Measured.HANDLER: LabelKind.QUEUE,
    Measured.SETTLE: LabelKind.NONE,
    Measured.CLAIM: LabelKind.NONE,
    Measured.BACKOFF: LabelKind.NONE,
    Measured.LATENESS: LabelKind.NONE,
}

_QUICK_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
_SLOW_S = (0.1, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 300.0, 1_800.0, 7_200.0, 14_400.0)
BOUNDS: Mapping[Measured, tuple[float, ...]] = {
    Measured.HANDOVER: _QUICK_S,
    Measured.HANDLER: _QUICK_S,
    Measured.SETTLE: _QUICK_S,
    Measured.CLAIM: (1, 2, 5, 10, 20, 50, 100, 200, 500),
    Measured.BACKOFF: _SLOW_S,
    Measured.LATENESS: _QUICK_S,
}
"""The upper ends of each histogram's buckets; what is above the last one has a bucket of its own."""

TotalName = Flow | Occurrence | Measured


class Total(Struct, frozen=True):
    """So many of one thing. `label` is of the kind that the name has; `part` is one of few: the number of an
    attempt, the kind of a failure, a bucket."""

    name: TotalName
    label: str
    part: str
    count: int


class TotalsBatch(Struct, frozen=True):
    """What one process counted since its last batch; `source` is the process, `number` rises by one.

    The busiest come first: they get the labels that are left.
    """

    source: str
    number: int
    totals: tuple[Total, ...]


class Minute(Struct, frozen=True):
    """What became of a queue's messages within the minute that began `at`."""

    at: int
    queue: str
    accepted: int = 0
    done: int = 0
    retried: int = 0
    dead: int = 0
    released: int = 0


def label_kind(name: TotalName) -> LabelKind:
    """What the labels of a name are."""
    match name:
        case Flow():
            return LabelKind.QUEUE
        case Occurrence():
            return _COUNTED_KINDS[name]
        case Measured():
            return _MEASURED_KINDS[name]


BY_QUEUE: tuple[TotalName, ...] = tuple(
    name for names in (Flow, Occurrence, Measured) for name in names if label_kind(name) is LabelKind.QUEUE
)
"""What is counted queue by queue."""


def total_name(text: str) -> TotalName | None:
    """The name as it is stored; None of one that a newer version counts."""
    return _NAMES.get(text)


_NAMES: dict[str, TotalName] = {one.value: one for names in (Flow, Occurrence, Measured) for one in names}
