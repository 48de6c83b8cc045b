"""Letters by filter on an open connection: a page of an order, a count, a split by tenant and reason.

A filter on the payload or on text is answered with what can be found within its time: it looks at letters
slice by slice, and its cursor says how far it came. Everything else is one statement.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace

import apsw

from redrive.core.verdict import Reason
from redrive.machine.statements import load_sections
from redrive.office.filters import Condition
from redrive.office.index.cursors import Cursor, LetterOrder

SLICE = 100
_SLICES = (10, 2_000)
_SLICE_S = 0.02
_SQL = load_sections("redrive.office", "statements/find.sql")
_DIRECTIONS = {
    LetterOrder.OLDEST: {"beyond": ">", "order": "asc"},
    LetterOrder.NEWEST: {"beyond": "<", "order": "desc"},
}
_Row = tuple[str, str, int, str, str, int, int, float, str, int | None]


@dataclass(frozen=True, slots=True)
class Found:
    """A letter as the index knows it: the key that a move names, and what a choice depends on."""

    queue: str
    id: str
    generation: int
    tenant: str
    reason: str
    died_at: int
    enqueued_at: int
    ttl_s: float
    code: str


@dataclass(frozen=True, slots=True)
class Looked:
    """How far a search through payloads has looked, up to this page's cursor."""

    letters: int
    of: int


@dataclass(frozen=True, slots=True)
class FoundPage:
    """Some letters of an order; `cursor` goes on after them, None at the end.

    `looked` is there for filters on payload or text: a page of these may be short or empty and have a cursor.
    """

    letters: tuple[Found, ...]
    cursor: str | None
    looked: Looked | None = None


@dataclass(frozen=True, slots=True)
class TenantPart:
    """So many letters of a tenant have this reason."""

    tenant: str
    reason: str
    count: int
    first_died_at: int
    last_died_at: int


def find(db: apsw.Connection, condition: Condition, cursor: Cursor, limit: int, budget_s: float) -> FoundPage:
    """A page of letters from the cursor on."""
    if condition.deep is None:
        return _find_narrow(db, condition, cursor, limit)
    ends_s = time.monotonic() + budget_s
    of = count(db, replace(condition, deep=None))
    letters: list[Found] = []
    for rows in _slices(db, condition, cursor):
        looked = _take(rows, letters, limit)
        cursor = _after(rows[looked - 1], cursor.order, cursor.looked + looked)
        if len(letters) == limit or time.monotonic() >= ends_s:
            return FoundPage(tuple(letters), str(cursor), Looked(cursor.looked, max(of, cursor.looked)))
    return FoundPage(tuple(letters), None, Looked(cursor.looked, max(of, cursor.looked)))


def count(db: apsw.Connection, condition: Condition) -> int:
    """How many letters are meant."""
    return int(db.execute(_SQL["count"].format(**pieces(condition)), condition.bindings).get)


def count_reason(db: apsw.Connection, reason: Reason) -> int:
    """How many letters have this reason."""
    return int(db.execute(_SQL["count_reason"], {"reason": reason.value}).get)


def split(db: apsw.Connection, condition: Condition) -> list[TenantPart]:
    """The letters meant, by tenant and reason, the most first."""
    rows = db.execute(_SQL["split"].format(**pieces(condition)), condition.bindings)
    return sorted(
        (TenantPart(*row) for row in rows), key=lambda part: (-part.count, part.tenant, part.reason)
    )


def pieces(condition: Condition) -> dict[str, str]:
    """What a statement over all letters meant puts in: where they are, and what is asked of them."""
    if condition.deep is None:
        return {"letters": "letters", "condition": condition.narrow}
    return {"letters": _SQL["documents"].format(narrow=condition.narrow), "condition": condition.deep}


def _find_narrow(db: apsw.Connection, condition: Condition, cursor: Cursor, limit: int) -> FoundPage:
    rows = _rows(db, "find", condition, cursor, limit + 1)
    letters = tuple(Found(*row[:-1]) for row in rows[:limit])
    if len(rows) <= limit:
        return FoundPage(letters, None)
    return FoundPage(letters, str(_after(rows[limit - 1], cursor.order)))


def _take(rows: list[_Row], letters: list[Found], limit: int) -> int:
    """Add the rows that are wanted, up to a limit; how many rows were looked at for it."""
    for looked, row in enumerate(rows, 1):
        if row[-1]:
            letters.append(Found(*row[:-1]))
            if len(letters) == limit:
                return looked
    return len(rows)


def _after(row: _Row, order: LetterOrder, looked: int = 0) -> Cursor:
    return Cursor(order, row[5], row[1], looked)


def _slices(db: apsw.Connection, condition: Condition, cursor: Cursor) -> Iterator[list[_Row]]:
    """All that the narrow table lets through, with whether it is wanted; a slice takes about _SLICE_S."""
    size = SLICE
    while True:
        began_s = time.monotonic()
        rows = _rows(db, "look", condition, cursor, size)
        took_s = time.monotonic() - began_s
        if rows:
            yield rows
        if len(rows) < size:
            return
        cursor = _after(rows[-1], cursor.order)
        size = max(_SLICES[0], min(_SLICES[1], 2 * size if took_s < _SLICE_S else size // 2))


def _rows(db: apsw.Connection, name: str, condition: Condition, cursor: Cursor, size: int) -> list[_Row]:
    statement = _SQL[name].format(narrow=condition.narrow, deep=condition.deep, **_DIRECTIONS[cursor.order])
    place = {"after_at": cursor.died_at, "after_id": cursor.id, "size": size}
    return list(db.execute(statement, {**condition.bindings, **place}))
