"""Dead letters in groups: how many, since when, whom they hit, how it goes, and one to read.

Only reads the index. What people said about a group is `standing`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import apsw

from redrive.machine.statements import load_sections
from redrive.office.filters import Condition
from redrive.office.index.find import pieces
from redrive.office.shape import LABELS, edges

BUCKETS = 24
SPAN_S = 86_400.0
_SQL = load_sections("redrive.office", "statements/groups.sql")


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

    `trend` counts the first deaths in equal parts of the last while, the latest part last; `last_died_at` is
    the latest death, also of a letter that came back. `queues` are by name.
    """

    by: GroupBy
    key: str
    count: int
    first_died_at: int
    last_died_at: int
    tenants: int
    queues: tuple[str, ...]
    trend: tuple[int, ...]
    sample: Sample


@dataclass(frozen=True, slots=True)
class TrendWindow:
    """The time that a trend shows, up to `now`."""

    now: int
    span_s: float = SPAN_S
    buckets: int = BUCKETS

    @property
    def bindings(self) -> dict[str, int]:
        span_ms = round(self.span_s * 1000)
        return {"since_at": self.now - span_ms, "span_ms": span_ms, "buckets": self.buckets}


def count_groups(
    db: apsw.Connection, by: GroupBy, condition: Condition, window: TrendWindow, limit: int
) -> list[Counts]:
    """The largest groups of the letters meant, all seen at one instant."""
    key = _SQL["age"] if by is GroupBy.AGE else f"coalesce({by.value}, '')"
    texts = {name: _SQL[name].format(key=key, **pieces(condition)) for name in ("groups", "trends")}
    bindings = {**condition.bindings, **(edges(window.now) if by is GroupBy.AGE else {})}
    with db:
        rows = list(db.execute(texts["groups"], {**bindings, "size": limit}))
        histories = {row[0]: _History([0] * window.buckets) for row in rows}
        for name, bucket, count, first_died_at in db.execute(
            texts["trends"], {**bindings, **window.bindings}
        ):
            if name in histories:
                histories[name].add(bucket, count, first_died_at)
    return [_counts(by, row, histories[row[0]]) for row in rows]


@dataclass(slots=True)
class _History:
    """What is being counted of a group over time."""

    trend: list[int]
    first_died_at: int | None = None

    def add(self, bucket: int, count: int, died_at: int) -> None:
        if bucket >= 0:
            self.trend[bucket] += count
        self.first_died_at = died_at if self.first_died_at is None else min(self.first_died_at, died_at)


def _counts(by: GroupBy, row: tuple[Any, ...], history: _History) -> Counts:
    name, count, tenants, queues, last_died_at, *sample = row
    key = LABELS[name] if by is GroupBy.AGE else name
    first_died_at = last_died_at if history.first_died_at is None else history.first_died_at
    return Counts(
        by,
        key,
        count,
        first_died_at,
        last_died_at,
        tenants,
        tuple(sorted(queues.split(","))),
        tuple(history.trend),
        Sample(*sample),
    )
