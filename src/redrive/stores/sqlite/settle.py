"""Settle: apply verdicts under the lease that proves the right to them (P13, P23).

Verdicts of one kind go together, each message by one guarded statement whose row comes back when it moved.
What did not come back is refused and nothing of it changed. `extend` is here too: it needs the same proof.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from redrive.core.failure import Failure
from redrive.core.letters import RedriveResult
from redrive.core.message import Lease
from redrive.core.settings import FinishedSettings
from redrive.core.verdict import Bury, Complete, Release, RetryAt, Settlement
from redrive.stores.sqlite.connection import DIALECT
from redrive.stores.sqlite.failures import add_failures, remove_failures
from redrive.stores.sqlite.lanes import LaneBook
from redrive.stores.sqlite.writer import Step
from redrive.stores.statements import load_sql

SQL = load_sql(DIALECT, "settle")


def extend(step: Step, leases: Sequence[Lease], lease_s: float) -> set[str]:
    """The step of `Source.extend`."""
    until_at = step.now + round(lease_s * 1000)
    tokens = {lease.token for lease in leases}
    rows = step.db.executemany(SQL["extend"], [(token, until_at) for token in tokens])
    return tokens - {token for (token,) in rows}


def settle(step: Step, settlements: Sequence[Settlement], finished: FinishedSettings) -> set[str]:
    """The step of `Source.settle`."""
    return _Settling(step, finished).run(settlements)


class _Settling:
    """One call of settle: the leases and lanes it touches, and the ids that moved."""

    def __init__(self, step: Step, finished: FinishedSettings) -> None:
        self._step, self._db, self._finished = step, step.db, finished
        self._leases: dict[str, int | None] = {}
        self._books: dict[int, LaneBook] = {}
        self._failures: list[tuple[int, Failure]] = []

    def run(self, settlements: Sequence[Settlement]) -> set[str]:
        kinds: dict[type[Any], list[Settlement]] = defaultdict(list)
        refused: set[str] = set()
        held: Counter[int] = Counter()
        for settlement in settlements:
            kinds[type(settlement.verdict)].append(settlement)
        for kind, apply in (
            (Complete, self._complete),
            (RetryAt, self._retry),
            (Release, self._release),
            (Bury, self._bury),
        ):
            asked = [(self._lease(each), each) for each in kinds.pop(kind, ())]
            owned = [(lease, each) for lease, each in asked if lease is not None]
            moved = apply(owned) if owned else set()
            for lease, each in asked:
                if lease is not None and each.delivery.message.id in moved:
                    held[lease] += 1
                else:
                    refused.add(each.delivery.message.id)
        self._let_go(held)
        add_failures(self._db, self._failures)
        for book in self._books.values():
            book.close()
        return refused

    def _lease(self, settlement: Settlement) -> int | None:
        token = settlement.delivery.lease.token
        if token not in self._leases:
            self._leases[token] = self._db.execute(SQL["lease_of_token"], (token,)).get
        return self._leases[token]

    def _let_go(self, held: Counter[int]) -> None:
        self._db.executemany(SQL["let_go"], list(held.items()))
        self._db.executemany(SQL["remove_empty_lease"], [(lease,) for lease in held])

    def _book(self, queue: int) -> LaneBook:
        if queue not in self._books:
            self._books[queue] = LaneBook.numbered(self._step, queue)
        return self._books[queue]

    def _complete(self, owned: Sequence[tuple[int, Settlement]]) -> set[str]:
        forget = self._finished.keep == 0
        now = self._step.now
        if forget:
            bindings = [(each.delivery.message.id, lease) for lease, each in owned]
            rows = self._db.executemany(SQL["forget"], bindings).fetchall()
        else:
            timed = [(each.delivery.message.id, lease, now) for lease, each in owned]
            rows = self._db.executemany(SQL["complete"], timed).fetchall()
        seqs = [(row[0],) for row in rows]
        self._db.executemany(SQL["remove_body"], seqs)
        ends_at = now + round(self._finished.dedupe_s * 1000)
        keys = [(lane, dedupe, message_id, ends_at) for _, message_id, lane, _, _, dedupe in rows if dedupe]
        self._db.executemany(SQL["end_key"], keys)
        if forget:
            remove_failures(self._db, [row[0] for row in rows])
            self._db.executemany(SQL["remove_redrives"], seqs)
        else:
            self._end_redrives(((row[0], row[4]) for row in rows), RedriveResult.DONE)
        for (queue, number), count in Counter((row[3], row[2]) for row in rows).items():
            lane = self._book(queue).lane(number)
            lane.in_flight -= count
            lane.done += count
        return {row[1] for row in rows}

    def _retry(self, owned: Sequence[tuple[int, Settlement]]) -> set[str]:
        moved: set[str] = set()
        for lease_number, each in owned:
            verdict, message_id = each.verdict, each.delivery.message.id
            assert isinstance(verdict, RetryAt)  # noqa: S101 - sorted by kind above
            row = self._db.execute(SQL["retry"], (message_id, lease_number, verdict.due_at)).fetchone()
            if row is None:
                continue
            seq, _, number, queue, track = row
            lane = self._book(queue).lane(number)
            lane.in_flight -= 1
            lane.add(track, verdict.due_at)
            self._failures.append((seq, verdict.failure))
            moved.add(message_id)
        return moved

    def _release(self, owned: Sequence[tuple[int, Settlement]]) -> set[str]:
        moved: set[str] = set()
        for lease_number, each in owned:
            verdict, message_id = each.verdict, each.delivery.message.id
            assert isinstance(verdict, Release)  # noqa: S101 - sorted by kind above
            lost = verdict.failure is not None
            bindings = (message_id, lease_number, verdict.due_at, lost)
            row = self._db.execute(SQL["release"], bindings).fetchone()
            if row is None:
                continue
            seq, _, number, queue, track, crashes = row
            self._take_back(queue, number, track, verdict.due_at, suspect=crashes > 0)
            if verdict.failure is not None:
                self._failures.append((seq, verdict.failure))
            moved.add(message_id)
        return moved

    def _take_back(self, queue: int, number: int, track: str, due_at: int, *, suspect: bool) -> None:
        book = self._book(queue)
        lane = book.lane(number)
        lane.in_flight -= 1
        if suspect:
            lane.suspects += 1
            self._step.due.add(book.queue.name)
        else:
            lane.add(track, due_at)

    def _bury(self, owned: Sequence[tuple[int, Settlement]]) -> set[str]:
        moved: set[str] = set()
        redriven: list[tuple[int, int]] = []
        for lease_number, each in owned:
            verdict, message_id = each.verdict, each.delivery.message.id
            assert isinstance(verdict, Bury)  # noqa: S101 - sorted by kind above
            failure = verdict.failure
            bindings = (message_id, lease_number, self._step.now, verdict.reason, failure.fingerprint)
            row = self._db.execute(SQL["bury"], bindings).fetchone()
            if row is None:
                continue
            seq, _, number, queue, generation = row
            lane = self._book(queue).lane(number)
            lane.in_flight -= 1
            lane.dead += 1
            self._failures.append((seq, failure))
            redriven.append((seq, generation))
            moved.add(message_id)
        self._end_redrives(redriven, RedriveResult.DEAD)
        return moved

    def _end_redrives(self, moved: Iterable[tuple[int, int]], result: RedriveResult) -> None:
        ended = [(seq, generation, result) for seq, generation in moved if generation > 0]
        self._db.executemany(SQL["redrive_result"], ended)
