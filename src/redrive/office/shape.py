"""The first look in trouble: a table of tenant by age, in doubling buckets, with totals.

One wide column says when it began, one long row says who is hit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import apsw

from redrive.machine.statements import load_sections
from redrive.office.filters import Condition, Filter
from redrive.office.index import Index
from redrive.office.index.find import pieces

_MINUTES = tuple(5 * 2**step for step in range(9))
_DAYS = (7, 30)
BOUNDS_MINUTES: tuple[int, ...] = (*_MINUTES, *(days * 24 * 60 for days in _DAYS))
LABELS: tuple[str, ...] = (
    *(f"{minutes}m" for minutes in _MINUTES),
    *(f"{days}d" for days in _DAYS),
    f"{_DAYS[-1]}d+",
)


def edges(now: int) -> dict[str, int]:
    """The instants between the buckets, named as the statements bind them."""
    return {f"edge_{number}": now - minutes * 60_000 for number, minutes in enumerate(BOUNDS_MINUTES)}


_SQL = load_sections("redrive.office", "statements/shape.sql")


@dataclass(frozen=True, slots=True)
class ShapeRow:
    """How many letters of a tenant are in each bucket of age, the youngest first."""

    tenant: str
    total: int
    counts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Shape:
    """The tenants with the most letters first. The totals are of all; `others` is how many are not shown."""

    labels: tuple[str, ...]
    total: int
    counts: tuple[int, ...]
    rows: tuple[ShapeRow, ...]
    others: int


async def shape(index: Index, asked: Filter, *, scope: str | None = None, limit: int = 50) -> Shape:
    """The letters meant, by tenant and age."""
    condition, bounds = index.compile(asked, scope), edges(index.now())
    rows = await index.read(lambda db: _rows(db, condition, bounds))
    return Shape(
        LABELS,
        sum(row.total for row in rows),
        tuple(sum(row.counts[bucket] for row in rows) for bucket in range(len(LABELS))),
        tuple(rows[:limit]),
        max(0, len(rows) - limit),
    )


def _rows(db: apsw.Connection, condition: Condition, bounds: dict[str, int]) -> list[ShapeRow]:
    statement = _SQL["shape"].format(**pieces(condition))
    return [_row(*row) for row in db.execute(statement, {**condition.bindings, **bounds})]


def _row(tenant: str, total: int, *older: int) -> ShapeRow:
    """From "so many are older than each bound" to "so many are between two"."""
    return ShapeRow(tenant, total, _between((total, *older, 0)))


def _between(older: Sequence[int]) -> tuple[int, ...]:
    return tuple(more - fewer for more, fewer in pairwise(older))
