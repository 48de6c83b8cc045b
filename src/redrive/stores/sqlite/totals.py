"""What happened, added up over all processes, and the figures that are read for it at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

import apsw

from redrive.core.totals import (
    BY_QUEUE,
    LABEL_LIMITS,
    MINUTE_MS,
    MINUTES_KEPT_MS,
    OTHER,
    Flow,
    LabelKind,
    Minute,
    Total,
    TotalsBatch,
    label_kind,
    total_name,
)
from redrive.stores.sqlite.connection import DIALECT
from redrive.stores.sqlite.ledger import snapshot
from redrive.stores.sqlite.unit import Unit
from redrive.stores.statements import load_sql

SQL = load_sql(DIALECT, "totals")

SOURCES_KEPT_MS = 86_400_000
_FLOWS = tuple(Flow)


class _Labels:
    """The labels that were given; while there are some left of a kind, whoever asks first gets one."""

    def __init__(self, db: apsw.Connection) -> None:
        self._db = db
        self._given: dict[LabelKind, set[str]] = {}

    def settle(self, kind: LabelKind, label: str) -> str:
        if kind is LabelKind.NONE or label == OTHER:
            return label
        given = self._given.get(kind)
        if given is None:
            given = self._given[kind] = {one for (one,) in self._db.execute(SQL["given"], (kind.value,))}
        if label in given:
            return label
        if len(given) >= LABEL_LIMITS[kind]:
            return OTHER
        self._db.execute(SQL["give"], (kind.value, label))
        given.add(label)
        return label


def add_totals(unit: Unit, batch: TotalsBatch) -> None:
    """The write of `Totals.add_totals`."""
    db, labels = unit.db, _Labels(unit.db)
    if (db.execute(SQL["last_number"], (batch.source,)).get or 0) >= batch.number:
        return
    db.execute(SQL["note_number"], (batch.source, batch.number, unit.now))
    sums, minutes = Counter[tuple[str, str, str]](), dict[str, list[int]]()
    for total in batch.totals:
        label = labels.settle(label_kind(total.name), total.label)
        sums[total.name.value, label, total.part] += total.count
        if isinstance(total.name, Flow):
            counts = minutes.setdefault(label, [0] * len(_FLOWS))
            counts[_FLOWS.index(total.name)] += total.count
    db.executemany(SQL["add"], [(*key, count) for key, count in sums.items()])
    at = unit.now - unit.now % MINUTE_MS
    db.executemany(SQL["add_minute"], [(queue, at, *counts) for queue, counts in minutes.items()])


def totals(db: apsw.Connection) -> list[Total]:
    """The work of `Totals.totals`."""
    rows = [(total_name(name), label, part, count) for name, label, part, count in db.execute(SQL["totals"])]
    return [Total(name, label, part, count) for name, label, part, count in rows if name is not None]


def minutes(db: apsw.Connection, queue: str | None, since_at: int, now: int) -> list[Minute]:
    """The work of `Totals.minutes`."""
    first_at = max(since_at, now - MINUTES_KEPT_MS)
    first_at -= first_at % MINUTE_MS
    if queue is None:
        return [Minute(*row) for row in db.execute(SQL["minutes_of_all"], (first_at,))]
    return [Minute(*row) for row in db.execute(SQL["minutes"], (queue, first_at))]


def letter_ages(db: apsw.Connection, queue: str, instants: Sequence[int]) -> list[int]:
    """The work of `Totals.letter_ages`; each letter is looked at once."""
    counts, died = list[int](), 0
    with snapshot(db):
        for after, until in pairwise((-1, *instants)):
            died += int(db.execute(SQL["died_between"], (queue, after, until)).get)
            counts.append(died)
    return counts


def forget_totals(unit: Unit, queue: str) -> None:
    """Forget what was counted of a queue that is deleted; its label is another's to get."""
    if queue != OTHER:
        unit.db.executemany(SQL["forget_total"], [(name.value, queue) for name in BY_QUEUE])
        unit.db.execute(SQL["forget_minutes"], (queue,))
        unit.db.execute(SQL["take_back"], (LabelKind.QUEUE.value, queue))


def remove_totals(unit: Unit, limit: int) -> None:
    """Minutes that are too old, and processes that have counted nothing for a day."""
    unit.db.execute(SQL["remove_minutes"], (unit.now - MINUTES_KEPT_MS - MINUTE_MS, limit))
    unit.db.execute(SQL["remove_sources"], (unit.now - SOURCES_KEPT_MS,))
