"""Settle: apply verdicts under the lease that proves the right to them.

Verdicts of one kind go together, each message by one guarded statement whose row comes back when it moved.
What did not come back is refused and nothing of it changed. `extend` is here too: it needs the same proof.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from redrive.core.failure import REASON_LENGTH, Failure, clip
from redrive.core.letters import RedriveResult
from redrive.core.message import Lapse, Lease
from redrive.core.settings import FinishedSettings
from redrive.core.verdict import Bury, Complete, HoldLane, Release, RetryAt, Settlement
from redrive.stores.rules.lane_row import LaneRow
from redrive.stores.rules.tallies import Count, Tallies
from redrive.stores.sqlite.connection import DIALECT
from redrive.stores.sqlite.content import add_failures, add_letters, close_children, remove_bodies
from redrive.stores.sqlite.lane_book import LaneBook
from redrive.stores.sqlite.rows import encode_list
from redrive.stores.sqlite.tallies import write_tallies
from redrive.stores.sqlite.unit import Unit
from redrive.stores.statements import load_sql

SQL = load_sql(DIALECT, "settle")

Held = tuple[str, int]
"""A message's id and the number of the lease under which it is settled."""


class Settled(msgspec.Struct, frozen=True, gc=False):
    """A message that a verdict moved; `lease` is the one that it was settled under."""

    seq: int
    id: str
    lease: int
    lane: int
    queue: int
    track: str
    generation: int
    crashes: int
    operation: str | None
    attempts: int

    @property
    def held(self) -> Held:
        return self.id, self.lease


class CompletedRow(Settled, frozen=True, gc=False):
    """A message that was done, and what else ends with it."""

    dedupe: str | None
    parent: str | None
    open_children: int
    is_parent: bool


T = TypeVar("T", bound=Settled)


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
    """One call of settle: the leases and lanes it touches, and what moved."""

    def __init__(self, unit: Unit, finished: FinishedSettings) -> None:
        self._unit, self._db, self._finished = unit, unit.db, finished
        self._leases: dict[str, int] = {}
        self._books: dict[int, LaneBook] = {}
        self._failures: list[tuple[int, Failure]] = []
        self._moved: set[Held] = set()
        self._buried: list[int] = []
        self._lapses: dict[Held, Lapse] = {}
        self._tallies = Tallies()

    def run(self, settlements: Sequence[Settlement]) -> set[str]:
        kinds = (Complete, RetryAt, Release, Bury, HoldLane)
        asked: dict[type[Any], dict[Held, Any]] = {kind: {} for kind in kinds}
        for each in settlements:
            held = (each.delivery.message.id, self._lease(each))
            asked[type(each.verdict)].setdefault(held, each.verdict)
            if each.delivery.lapse is not None:
                self._lapses[held] = each.delivery.lapse
        self._complete(asked[Complete])
        self._retry(asked[RetryAt])
        self._release(asked[Release])
        self._bury(asked[Bury])
        self._hold(asked[HoldLane])
        self._let_go()
        add_failures(self._db, self._failures)
        add_letters(self._db, self._buried)
        write_tallies(self._unit, self._tallies)
        for book in self._books.values():
            book.close()
        return {held[0] for kind in asked.values() for held in kind if held not in self._moved}

    def _lease(self, settlement: Settlement) -> int:
        """The lease of a settlement's token; 0, which is no lease, for a token that holds nothing."""
        token = settlement.delivery.lease.token
        if token not in self._leases:
            self._leases[token] = self._db.execute(SQL["lease_of_token"], (token,)).get or 0
        return self._leases[token]

    def _let_go(self) -> None:
        counts = Counter(lease for _, lease in self._moved)
        self._db.executemany(SQL["let_go"], list(counts.items()))
        self._db.executemany(SQL["remove_empty_lease"], [(lease,) for lease in counts])

    def _book(self, queue: int) -> LaneBook:
        book = self._books.get(queue)
        if book is None:
            book = self._books[queue] = LaneBook.numbered(self._unit, queue)
        return book

    def _lane(self, row: Settled) -> LaneRow:
        return self._book(row.queue).lane(row.lane)

    def _move(self, statement: str, bindings: Iterable[tuple[Any, ...]], kind: type[T]) -> list[T]:
        """Run a guarded statement for each; the rows that moved."""
        rows = [kind(*row) for row in self._db.executemany(SQL[statement], bindings)]
        self._moved.update([(row.id, row.lease) for row in rows])
        return rows

    def _complete(self, asked: Mapping[Held, Complete]) -> None:
        now = self._unit.now
        batches = [(encode_list(ids), lease, now) for lease, ids in _by_lease(asked).items()]
        rows = self._move("complete", batches, CompletedRow)
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

    def _retry(self, asked: Mapping[Held, RetryAt]) -> None:
        rows = self._move("retry", [(*held, verdict.due_at) for held, verdict in asked.items()], Settled)
        for row in rows:
            verdict = asked[row.held]
            self._lane(row).retry(row.track, verdict.due_at)
            self._failures.append((row.seq, verdict.failure))
        self._judge(rows, Count.FAILED)

    def _release(self, asked: Mapping[Held, Release]) -> None:
        bindings = [(*held, verdict.due_at, verdict.failure is not None) for held, verdict in asked.items()]
        for row in self._move("release", bindings, Settled):
            verdict = asked[row.held]
            self._give_back(row, verdict.due_at)
            if verdict.failure is not None:
                self._failures.append((row.seq, verdict.failure))

    def _give_back(self, row: Settled, due_at: int) -> LaneRow:
        """The lane of a message that waits again."""
        lane, suspect = self._lane(row), row.crashes > 0
        lane.give_back(row.track, due_at, suspect=suspect)
        if suspect:
            self._unit.due.add(self._book(row.queue).queue.name)
        return lane

    def _bury(self, asked: Mapping[Held, Bury]) -> None:
        bindings = [
            (*held, self._unit.now, verdict.reason, verdict.failure.fingerprint)
            for held, verdict in asked.items()
        ]
        rows = self._move("bury", bindings, Settled)
        for row in rows:
            self._lane(row).bury(tried=row.held not in self._lapses)
            self._failures.append((row.seq, asked[row.held].failure))
            self._buried.append(row.seq)
        self._judge(rows, Count.FAILED, Count.DEAD)
        self._end_redrives(rows, RedriveResult.DEAD)

    def _hold(self, asked: Mapping[Held, HoldLane]) -> None:
        """The last of all verdicts of a call, so that a hold stands whatever else came with it."""
        for row in self._move("release", [(*held, self._unit.now, False) for held in asked], Settled):
            verdict = asked[row.held]
            self._give_back(row, self._unit.now).hold(verdict.probe_at, clip(verdict.reason, REASON_LENGTH))

    def _judge(self, rows: Sequence[Settled], what: Count, end: Count | None = None) -> None:
        """Count settled attempts for the operations that brought their messages back."""
        for row in rows:
            if row.operation is not None:
                self._tallies.judge(row.operation, row.attempts, self._lapses.get(row.held), what)
                if end is not None:
                    self._tallies.add(row.operation, end)

    def _end_redrives(self, rows: Sequence[Settled], result: RedriveResult) -> None:
        ended = [(row.seq, row.generation, result) for row in rows if row.generation > 0]
        self._db.executemany(SQL["redrive_result"], ended)


def _by_lease(asked: Iterable[Held]) -> dict[int, list[str]]:
    found: dict[int, list[str]] = {}
    for message_id, lease in asked:
        found.setdefault(lease, []).append(message_id)
    return found
