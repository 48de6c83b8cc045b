"""Dead letters in groups: how many, since when, whom they hit, how it goes, and one to read.

Only reads the index. What people said about a group is `standing`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import apsw

from redrive.office.ages import LABELS, edges
from redrive.office.filters import Condition
from redrive.office.index.finding import pieces
from redrive.office.sql import load_sql

BUCKETS = 24
SPAN_S = 86_400.0
_SQL = load_sql("groups")


class GroupBy(StrEnum):
    """What the letters of a group have in common."""

    FINGERPRINT = "fingerprint"
    CODE = "code"
    REASON = "reason"
    TENANT = "tenant"
    QUEUE = "queue"
    AGE = "age"


@dataclass(frozen=True, slots=True)
class Sample:
    """The newest letter of a group."""

    queue: str
    id: str
    tenant: str
    reason: str
    code: str | None
    failure: str


@dataclass(frozen=True, slots=True)
class Counts:
    """A group: its common value (empty: the letters that have none) and what its letters come to.

    `trend` counts the deaths in equal parts of the last while, the latest part last.
    """

    by: GroupBy
    key: str
    count: int
    first_died_at: int
    last_died_at: int
    tenants: int
    trend: tuple[int, ...]
    sample: Sample


@dataclass(frozen=True, slots=True)
class Window:
    """The time that a trend shows, up to `now`."""

    now: int
    span_s: float = SPAN_S
    buckets: int = BUCKETS

    @property
    def bindings(self) -> dict[str, int]:
        span_ms = max(1, round(self.span_s * 1000))
        return {"since_at": self.now - span_ms, "span_ms": span_ms, "buckets": max(1, self.buckets)}


def count_groups(
    db: apsw.Connection, by: GroupBy, condition: Condition, window: Window, limit: int
) -> list[Counts]:
    """The largest groups of the letters meant."""
    key = _SQL["age"] if by is GroupBy.AGE else f"coalesce({by.value}, '')"
    ages = edges(window.now) if by is GroupBy.AGE else {}
    bindings = {**condition.bindings, **ages}
    largest = _SQL["groups"].format(key=key, **pieces(condition))
    rows = list(db.execute(largest, {**bindings, "size": limit}))
    trends = _SQL["trends"].format(key=key, **pieces(condition))
    parts = _by_name(db.execute(trends, {**bindings, **window.bindings}))
    return [
        Counts(by, _label(by, name), count, *_history(parts[name], window), tenants=tenants, sample=Sample(*sample))
        for name, count, tenants, _, *sample in rows
    ]
