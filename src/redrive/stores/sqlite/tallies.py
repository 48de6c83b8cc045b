"""What is counted for an operation, in the transaction that moves or settles its messages.

A re-driven message is judged once, by the first attempt that is settled after its re-drive: attempts begin at
0 with each re-drive and given back ones are not counted, so the first is number 1; where its time to live ran
out with nothing settled before, it is number 0. Messages without an operation cost a look at one column.
"""

from __future__ import annotations

from collections import Counter
from enum import StrEnum

import apsw

from redrive.core.letters import OperationTally
from redrive.core.message import Lapse
from redrive.stores.sqlite.connection import DIALECT
from redrive.stores.sqlite.writer import Unit
from redrive.stores.statements import load_sql

SQL = load_sql(DIALECT, "tallies")

KEPT_MS = 30 * 86_400_000


class Count(StrEnum):
    """What is counted: a field of OperationTally and a column of `operations`."""

    MOVED = "moved"
    PASSED = "passed"
    FAILED = "failed"
    DONE = "done"
    DEAD = "dead"
    REMOVED = "removed"


class Tallies:
    """What one write counts; `write` adds it to what was counted before."""

    def __init__(self) -> None:
        self._counts: dict[str, Counter[Count]] = {}

    def add(self, operation: str | None, what: Count, times: int = 1) -> None:
        if operation is not None and times:
            self._counts.setdefault(operation, Counter())[what] += times

    def judge(self, operation: str, attempts: int, lapse: Lapse | None, what: Count) -> None:
        """Count a settled attempt where it is the first one since the re-drive."""
        if attempts <= (0 if lapse is Lapse.EXPIRED else 1):
            self.add(operation, what)

    def write(self, unit: Unit) -> None:
        for operation, counts in self._counts.items():
            unit.db.execute(SQL["count"], (operation, *(counts[what] for what in Count), unit.now))


def tally(db: apsw.Connection, operation: str) -> OperationTally:
    """The work of `Ledger.tally`."""
    row = db.execute(SQL["tally"], (operation,)).fetchone()
    return OperationTally() if row is None else OperationTally(*row)


def remove_tallies(unit: Unit, limit: int) -> None:
    """Tallies of operations for which nothing was counted for long."""
    unit.db.execute(SQL["remove_tallies"], (unit.now - KEPT_MS, limit))
