"""Settle: apply verdicts under the lease that proves the right to them.

What the leases hold is read first, by the numbers that the claim left on the deliveries; the rest is refused
and nothing of it changes. Then verdicts of one kind go together, each statement guarded by the lease again.
`extend` is here too: it needs the same proof.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import assert_never

import msgspec

from redrive.core.failure import REASON_LENGTH, Failure, clip
from redrive.core.letters import RedriveResult
from redrive.core.message import Lapse, Lease
from redrive.core.settings import FinishedSettings
from redrive.core.verdict import Bury, Complete, HoldLane, Release, RetryAt, Settlement
from redrive.stores.rules.lane_row import LaneRow
from redrive.stores.rules.tallies import Count, Tallies
from redrive.stores.sqlite.bulk import number_array
from redrive.stores.sqlite.connection import DIALECT
from redrive.stores.sqlite.content import add_failures, add_letters, close_children, remove_bodies
from redrive.stores.sqlite.lane_book import LaneBook
from redrive.stores.sqlite.tallies import write_tallies
from redrive.stores.sqlite.unit import Unit
from redrive.stores.statements import load_sql

SQL = load_sql(DIALECT, "settle")

Held = tuple[int, int]
"""The number of a message and that of the lease under which it is settled."""


class SettledRow(msgspec.Struct, frozen=True, gc=False):
    """A message as a lease holds it; `is_parent` also when its children are finished."""

    seq: int
    lease: int
    id: str
    lane: int
    queue: int
    track: str
    generation: int
    crashes: int
    operation: str | None
    attempts: int
    dedupe: str | None
    parent: str | None
    open_children: int
    is_parent: bool

    @property
    def held(self) -> Held:
        return self.seq, self.lease


def extend(unit: Unit, leases: Sequence[Lease], lease_s: float) -> set[str]:
    """The write of `Source.extend`."""
    ends = unit.at.later(round(lease_s * 1000))
    tokens = {lease.token for lease in leases}
    rows = unit.db.executemany(SQL["extend"], [(token, ends.now, ends.boot, ends.up_ms) for token in tokens])
    return tokens - {token for (token,) in rows}


def settle(unit: Unit, settlements: Sequence[Settlement], finished: FinishedSettings) -> set[str]:
    """The write of `Source.settle`."""
    return _Settling(unit, finished).run(settlements)


class _Settling:
    """One call of settle: the leases and lanes it touches, and what else is to be written."""

    def __init__(self, unit: Unit, finished: FinishedSettings) -> None:
        self._unit, self._db, self._finished = unit, unit.db, finished
        self._asked: dict[Held, Settlement] = {}
        self._leases: dict[str, int] = {}
        self._books: dict[int, LaneBook] = {}
        self._failures: list[tuple[int, Failure]] = []
        self._tallies = Tallies()

    def run(self, settlements: Sequence[Settlement]) -> set[str]:
        for each in settlements:
            # 0 is the number of no message: a delivery without a mark is not of this store.
            held = (each.delivery.mark or 0, self._lease(each))
            self._asked.setdefault(held, each)
        rows = self._held()
        self._apply(rows)
        self._let_go(rows)
        write_tallies(self._unit, self._tallies)
        for book in self._books.values():
            book.close()
        if len(rows) == len(self._asked):
            return set()
        moved = {row.held for row in rows}
        return {each.delivery.message.id for held, each in self._asked.items() if held not in moved}

    def _lease(self, settlement: Settlement) -> int:
        """The lease of a settlement's token; 0, which is no lease, for a token that holds nothing."""
        token = settlement.delivery.lease.token
        if token not in self._leases:
            self._leases[token] = self._db.execute(SQL["lease_of_token"], (token,)).get or 0
        return self._leases[token]

    def _held(self) -> list[SettledRow]:
        """What of the asked the leases hold."""
        return [
            SettledRow(*row)
            for lease, seqs in _by_lease(self._asked)
            for row in self._db.execute(SQL["held"], (number_array(seqs), lease))
        ]

    def _apply(self, rows: Iterable[SettledRow]) -> None:
        completed: list[SettledRow] = []
        retried: list[tuple[SettledRow, RetryAt]] = []
        released: list[tuple[SettledRow, Release]] = []
        buried: list[tuple[SettledRow, Bury]] = []
        holding: list[tuple[SettledRow, HoldLane]] = []
        for row in rows:
            verdict = self._asked[row.held].verdict
            match verdict:
                case Complete():
                    completed.append(row)
                case RetryAt():
                    retried.append((row, verdict))
                case Release():
                    released.append((row, verdict))
                case Bury():
                    buried.append((row, verdict))
                case HoldLane():
                    holding.append((row, verdict))
                case _:
                    assert_never(verdict)
        self._complete(completed)
        self._retry(retried)
        self._release(released)
        self._bury(buried)
        self._hold(holding)
        add_failures(self._db, self._failures)
        add_letters(self._db, [row.seq for row, _ in buried])

    def _let_go(self, rows: Iterable[SettledRow]) -> None:
        counts = Counter([row.lease for row in rows])
        self._db.executemany(SQL["let_go"], list(counts.items()))
        self._db.executemany(SQL["remove_empty_lease"], [(lease,) for lease in counts])

    def _book(self, queue: int) -> LaneBook:
        book = self._books.get(queue)
        if book is None:
            book = self._books[queue] = LaneBook.numbered(self._unit, queue)
        return book

    def _lane(self, row: SettledRow) -> LaneRow:
        return self._book(row.queue).lane(row.lane)

    def _complete(self, rows: Sequence[SettledRow]) -> None:
        now = self._unit.now
        for lease, seqs in _by_lease([row.held for row in rows]):
            self._db.execute(SQL["complete"], (number_array(seqs), lease, now))
        remove_bodies(self._db, [(row.seq, row.open_children) for row in rows])
        close_children(self._db, [row.parent for row in rows])
        ends_at = now + round(self._finished.dedupe_s * 1000)
        keys = [(row.lane, row.dedupe, row.id, ends_at) for row in rows if row.dedupe is not None]
        self._db.executemany(SQL["end_key"], keys)
        self._end_redrives(rows, RedriveResult.DONE)
        self._judge(rows, Count.PASSED, Count.DONE)
        counts = Counter([(row.queue, row.lane) for row in rows])
        parents = Counter([(row.queue, row.lane) for row in rows if row.is_parent])
        for queue in {queue for queue, _ in counts}:
            self._book(queue).read_ahead(lanes=(number for where, number in counts if where == queue))
        for (queue, number), count in counts.items():
            self._book(queue).lane(number).complete(count, parents[queue, number])

    def _retry(self, settled: Sequence[tuple[SettledRow, RetryAt]]) -> None:
        self._db.executemany(SQL["retry"], [(*row.held, verdict.due_at) for row, verdict in settled])
        for row, verdict in settled:
            self._lane(row).retry(row.track, verdict.due_at)
            self._failures.append((row.seq, verdict.failure))
        self._judge([row for row, _ in settled], Count.FAILED)

    def _release(self, settled: Sequence[tuple[SettledRow, Release]]) -> None:
        for row, verdict in settled:
            self._give_back(row, verdict.due_at, crashed=verdict.failure is not None)
            if verdict.failure is not None:
                self._failures.append((row.seq, verdict.failure))

    def _give_back(self, row: SettledRow, due_at: int, *, crashed: bool) -> LaneRow:
        """The lane of a message that waits again."""
        self._db.execute(SQL["release"], (*row.held, due_at, crashed))
        lane, suspect = self._lane(row), crashed or row.crashes > 0
        lane.give_back(row.track, due_at, suspect=suspect)
        if suspect:
            self._unit.due.add(self._book(row.queue).queue.name)
        return lane

    def _bury(self, settled: Sequence[tuple[SettledRow, Bury]]) -> None:
        now = self._unit.now
        self._db.executemany(
            SQL["bury"],
            [(*row.held, now, verdict.reason, verdict.failure.fingerprint) for row, verdict in settled],
        )
        for row, verdict in settled:
            self._lane(row).bury(tried=self._lapse(row) is None)
            self._failures.append((row.seq, verdict.failure))
        rows = [row for row, _ in settled]
        self._judge(rows, Count.FAILED, Count.DEAD)
        self._end_redrives(rows, RedriveResult.DEAD)

    def _hold(self, settled: Iterable[tuple[SettledRow, HoldLane]]) -> None:
        """The last of all verdicts of a call, so that a hold stands whatever else came with it."""
        for row, verdict in settled:
            lane = self._give_back(row, self._unit.now, crashed=False)
            lane.hold(verdict.probe_at, clip(verdict.reason, REASON_LENGTH))

    def _lapse(self, row: SettledRow) -> Lapse | None:
        return self._asked[row.held].delivery.lapse

    def _judge(self, rows: Iterable[SettledRow], what: Count, end: Count | None = None) -> None:
        """Count settled attempts for the operations that brought their messages back."""
        for row in rows:
            if row.operation is not None:
                self._tallies.judge(row.operation, row.attempts, self._lapse(row), what)
                if end is not None:
                    self._tallies.add(row.operation, end)

    def _end_redrives(self, rows: Iterable[SettledRow], result: RedriveResult) -> None:
        ended = [(row.seq, row.generation, result) for row in rows if row.generation > 0]
        self._db.executemany(SQL["redrive_result"], ended)


def _by_lease(held: Iterable[Held]) -> Iterable[tuple[int, list[int]]]:
    """Each lease with the numbers of its messages."""
    found: defaultdict[int, list[int]] = defaultdict(list)
    for seq, lease in held:
        found[lease].append(seq)
    return found.items()
