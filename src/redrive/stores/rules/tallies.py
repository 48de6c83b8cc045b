"""What is counted for an operation, in the transaction that moves or settles its messages.

A re-driven message is judged once, by the first attempt that is settled after its re-drive: attempts begin at
0 with each re-drive and given back ones are not counted, so the first is number 1; where its time to live ran
out with nothing settled before, it is number 0. Messages without an operation cost a look at one column.
"""

from __future__ import annotations

from collections import Counter
from enum import StrEnum

from redrive.core.message import Lapse


class Count(StrEnum):
    """What is counted: a field of OperationTally and a column of `operations`."""

    MOVED = "moved"
    PASSED = "passed"
    FAILED = "failed"
    DONE = "done"
    DEAD = "dead"
    REMOVED = "removed"


class Tallies:
    """What one write counts, to be added to what was counted before."""

    def __init__(self) -> None:
        self._counts: dict[str, Counter[Count]] = {}

    def add(self, operation: str | None, what: Count, times: int = 1) -> None:
        if operation is not None and times:
            self._counts.setdefault(operation, Counter())[what] += times

    def judge(self, operation: str, attempts: int, lapse: Lapse | None, what: Count) -> None:
        """Count a settled attempt where it is the first one since the re-drive."""
        if attempts <= (0 if lapse is Lapse.EXPIRED else 1):
            self.add(operation, what)

    def rows(self) -> list[tuple[str | int, ...]]:
        """Each operation with its counts, in the order of `Count`."""
        return [(operation, *(counts[what] for what in Count)) for operation, counts in self._counts.items()]
