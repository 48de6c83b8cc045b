"""The SQLite store: one file, any number of processes on one machine, every port of `core.ports`.

This is the face: each verb's work stands in the file of its name. Writes go through the one Writer, reads
through a connection of their own. Opened once, used from one event loop, closed once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import TypeVar

import apsw

from redrive.core.condition import Capacity, Description, Durability, Finding
from redrive.core.errors import StoreError
from redrive.core.lanes import Lane, LaneChange, LaneState
from redrive.core.letters import (
    Account,
    DeadLetter,
    LetterKey,
    LetterPage,
    MessagePage,
    MessagePhase,
    OperationTally,
)
from redrive.core.lifecycle import Move
from redrive.core.message import Delivery, Entry, Lease
from redrive.core.ports import PAGE, Claim, Claimed, Cleanup, Receipt
from redrive.core.records import Document, JournalRow, Record
from redrive.core.settings import FinishedSettings
from redrive.core.store import Deletion, OwnIndex, QueueCounts
from redrive.core.totals import Minute, Total, TotalsBatch
from redrive.core.verdict import Settlement
from redrive.stores.rules.append import check_entries
from redrive.stores.sqlite import (
    append,
    claim,
    examination,
    lanes,
    ledger,
    messages,
    moves,
    records,
    settle,
    tallies,
    totals,
    upkeep,
)
from redrive.stores.sqlite.clock import Instant, Machine, UptimeClock
from redrive.stores.sqlite.connection import translated
from redrive.stores.sqlite.lines import KeptLines
from redrive.stores.sqlite.opening import Workings
from redrive.stores.sqlite.unit import Unit, Work

__all__ = ["SqliteStore"]

T = TypeVar("T")


class SqliteStore:
    """A store in one SQLite file."""

    def __init__(
        self, path: str | Path, *, finished: FinishedSettings | None = None, machine: Machine | None = None
    ) -> None:
        self.path = Path(path)
        self._clock = UptimeClock(machine)
        self.skew_ms = 0
        self._finished = finished or FinishedSettings()
        self._opened: Workings | None = None
        self._lines = KeptLines(self.path)

    async def open(self) -> None:
        with translated(self.path):
            self._opened = await Workings.of(self.path, self._instant)
            self._clock.resume(self._opened.reader)

    async def close(self) -> None:
        if self._opened is not None:
            opened, self._opened = self._opened, None
            if opened.inherited:
                return
            with translated(self.path):
                await opened.close()

    def abandon(self) -> None:
        if self._opened is not None:
            opened, self._opened = self._opened, None
            if opened.inherited:
                return
            with translated(self.path):
                opened.abandon()

    def twin(self) -> SqliteStore:
        twin = SqliteStore(self.path, finished=self._finished, machine=self._clock.machine)
        twin.skew_ms = self.skew_ms
        return twin

    @property
    def index(self) -> OwnIndex:
        return OwnIndex(str(self.path))

    async def describe(self) -> Description:
        self._workings()
        return Description(
            f"sqlite:///{self.path}",
            Durability.A,
            "accepted means on disk: every commit is synced before it is answered",
            f"SQLite {apsw.sqlite_lib_version()}",
        )

    async def capacity(self) -> Capacity:
        accepts = not self._workings().writer.refuses
        return self._read(lambda db: examination.capacity(db, self.path, accepts=accepts))

    async def examine(self) -> list[Finding]:
        with translated(self.path):
            writer = self._workings().writer
            accepts, synced = not writer.refuses, writer.synced
            return await asyncio.to_thread(examination.examine, self.path, accepts=accepts, synced=synced)

    async def backup(self, target: Path, progress: examination.Progress | None = None) -> None:
        """Copy the live store into a new file; `progress` hears of pages done and pages in all."""
        with translated(target):
            await examination.copy_file(self.path, target, progress)

    def now(self) -> int:
        return self._clock.now() + self.skew_ms

    @property
    def appends_at_once(self) -> int:
        """All that wait for one commit share the next one."""
        return 1

    async def append(self, groups: Sequence[Sequence[Entry]]) -> list[list[Receipt]]:
        entries = check_entries(groups)
        if not entries:
            return [[] for _ in groups]
        return await self._write(lambda unit: append.append(unit, groups, entries))

    async def claim(self, asked: Claim) -> Claimed:
        idle = self._read(lambda db: self._peek(db, asked))
        if idle is not None:
            return idle
        return await self._write(lambda unit: claim.claim(unit, asked), drains=True)

    async def take(self, queue: str, keys: Sequence[LetterKey], token: str, lease_s: float) -> list[Delivery]:
        return await self._write(lambda unit: claim.take(unit, queue, keys, token, lease_s), drains=True)

    async def settle(self, settlements: Sequence[Settlement]) -> AbstractSet[str]:
        if not settlements:
            return set()
        return await self._write(lambda unit: settle.settle(unit, settlements, self._finished), drains=True)

    async def extend(self, leases: Sequence[Lease], lease_s: float) -> AbstractSet[str]:
        if not leases:
            return set()
        return await self._write(lambda unit: settle.extend(unit, leases, lease_s), drains=True)

    async def wait(self, queues: Sequence[str], timeout_s: float) -> None:
        with translated(self.path):
            await self._workings().waiting.wait(queues, timeout_s)

    async def queue_names(self) -> list[str]:
        return self._read(lanes.queue_names)

    async def reclaim(self, queue: str, token: str, lease_s: float, limit: int) -> list[Delivery]:
        at = self._instant()
        if not self._read(lambda db: upkeep.overdue(db, queue, at) or claim.holds(db, token)):
            return []
        return await self._write(lambda unit: upkeep.reclaim(unit, queue, token, lease_s, limit), drains=True)

    async def cleanup(self, cleanup: Cleanup) -> int:
        return await self._write(
            lambda unit: upkeep.cleanup(unit, cleanup, self._finished.remember_s), drains=True
        )

    async def get(self, message_id: str) -> Account | None:
        return self._read(lambda db: ledger.get(db, message_id))

    async def accounts(self, queue: str, ids: Sequence[str]) -> list[Account]:
        return self._read(lambda db: ledger.accounts(db, queue, ids))

    async def family(self, parent_id: str) -> list[Account]:
        return self._read(lambda db: ledger.family(db, parent_id))

    async def letters(self, queue: str | None, *, after: str | None = None, limit: int = PAGE) -> LetterPage:
        return self._read(lambda db: ledger.letters(db, queue, after, limit))

    async def messages(
        self,
        queue: str,
        phase: MessagePhase,
        *,
        tenant: str | None = None,
        after: str | None = None,
        limit: int = PAGE,
    ) -> MessagePage:
        return self._read(lambda db: messages.messages(db, queue, phase, tenant, after, limit, self.now()))

    async def tally(self, operation: str) -> OperationTally:
        return self._read(lambda db: tallies.tally(db, operation))

    async def undiscard(
        self, queue: str, letters: Sequence[LetterKey], *, operation: str | None = None
    ) -> AbstractSet[str]:
        return await self._write(lambda unit: moves.undiscard(unit, queue, letters, operation), drains=True)

    async def bury(self, letters: Sequence[DeadLetter]) -> AbstractSet[str]:
        return await self._write(lambda unit: moves.bury(unit, letters))

    async def redrive(
        self, queue: str, letters: Sequence[LetterKey], *, actor: str, operation: str | None = None
    ) -> AbstractSet[str]:
        return await self._write(
            lambda unit: moves.redrive(unit, queue, letters, actor, operation), drains=True
        )

    async def remove(
        self,
        queue: str,
        letters: Sequence[LetterKey],
        move: Move,
        *,
        actor: str,
        operation: str | None = None,
    ) -> AbstractSet[str]:
        return await self._write(
            lambda unit: moves.remove(unit, queue, letters, move, actor, operation), drains=True
        )

    async def cancel(self, queue: str, ids: Sequence[str], *, actor: str) -> AbstractSet[str]:
        return await self._write(lambda unit: moves.cancel(unit, queue, ids, actor), drains=True)

    async def purge(self, queue: str, *, actor: str, tenant: str | None = None, limit: int = PAGE) -> int:
        return await self._write(lambda unit: moves.purge(unit, queue, actor, tenant, limit), drains=True)

    async def run_now(self, queue: str, ids: Sequence[str]) -> AbstractSet[str]:
        return await self._write(lambda unit: moves.run_now(unit, queue, ids), drains=True)

    async def queues(self) -> list[QueueCounts]:
        counts, unknown = self._read(lambda db: lanes.queues(db, self.now(), self._lines.known()))
        if unknown:
            known = await self._lines.count(unknown, self.now())
            counts, _ = self._read(lambda db: lanes.queues(db, self.now(), known))
        return counts

    async def lanes(self, queue: str, *, after: str | None = None, limit: int = PAGE) -> list[Lane]:
        return self._read(lambda db: lanes.lanes(db, queue, after, limit))

    async def lane(self, queue: str, tenant: str) -> Lane | None:
        return self._read(lambda db: lanes.lane(db, queue, tenant))

    async def lanes_of(self, queue: str, tenants: Sequence[str]) -> list[Lane]:
        return self._read(lambda db: lanes.lanes_of(db, queue, tenants))

    async def next_lanes(self, queue: str, *, limit: int = PAGE) -> list[Lane]:
        return self._read(lambda db: lanes.next_lanes(db, queue, limit))

    async def set_lane(self, queue: str, tenant: str, change: LaneChange) -> Lane:
        return await self._write(lambda unit: lanes.set_lane(unit, queue, tenant, change), drains=True)

    async def set_queue(self, queue: str, state: LaneState) -> None:
        await self._write(lambda unit: lanes.set_queue(unit, queue, state), drains=True)

    async def delete_queue(self, queue: str, *, limit: int = PAGE) -> Deletion:
        return await self._write(
            lambda unit: lanes.delete_queue(unit, queue, limit, self._finished.remember_s), drains=True
        )

    async def get_record(self, kind: str, record_id: str) -> Record | None:
        return self._read(lambda db: records.get_record(db, kind, record_id, self.now()))

    async def put_record(
        self,
        kind: str,
        record_id: str,
        document: Document,
        *,
        expected: int | None,
        ttl_s: float | None = None,
    ) -> int:
        text = records.encode_document(document)
        return await self._write(
            lambda unit: records.put_record(unit, kind, record_id, text, expected, ttl_s), drains=True
        )

    async def list_records(self, kind: str, *, after: str | None = None, limit: int = PAGE) -> list[Record]:
        return self._read(lambda db: records.list_records(db, kind, after, limit, self.now()))

    async def delete_record(self, kind: str, record_id: str, *, expected: int | None) -> bool:
        return await self._write(
            lambda unit: records.delete_record(unit, kind, record_id, expected), drains=True
        )

    async def write_journal(self, name: str, document: Document, *, expected_head: int | None = None) -> int:
        text = records.encode_document(document)
        return await self._write(
            lambda unit: records.write_journal(unit, name, text, expected_head), drains=True
        )

    async def read_journal(self, name: str, *, after: int = 0, limit: int = PAGE) -> list[JournalRow]:
        return self._read(lambda db: records.read_journal(db, name, after, limit))

    async def add_totals(self, batch: TotalsBatch) -> None:
        await self._write(lambda unit: totals.add_totals(unit, batch))

    async def totals(self) -> list[Total]:
        return self._read(totals.totals)

    async def minutes(self, queue: str | None, since_at: int) -> list[Minute]:
        return self._read(lambda db: totals.minutes(db, queue, since_at, self.now()))

    async def letter_ages(self, queue: str, instants: Sequence[int]) -> list[int]:
        return self._read(lambda db: totals.letter_ages(db, queue, instants))

    def _peek(self, db: apsw.Connection, asked: Claim) -> Claimed | None:
        """The answer to a claim that finds nothing; None when it has to look properly."""
        self._workings().waiting.claiming(asked.queue)
        now = self.now()
        seen = claim.peek(db, asked.queue, now)
        wanted = seen.has_suspect(now) if asked.alone else seen.has_work(now)
        if wanted or claim.holds(db, asked.token):
            return None
        return Claimed((), seen.has_suspect(now), seen.next_at(now))

    def _read(self, work: Callable[[apsw.Connection], T]) -> T:
        workings = self._workings()
        with workings.reading, translated(self.path):
            return work(workings.reader)

    async def _write(self, work: Work[T], *, drains: bool = False) -> T:
        def work_in_time(unit: Unit) -> T:
            self._clock.keep(unit.db)
            return work(unit)

        return await self._workings().writer.run(work_in_time, drains=drains)

    def _instant(self) -> Instant:
        at = self._clock.read()
        return at.later(self.skew_ms) if self.skew_ms else at

    def _workings(self) -> Workings:
        if self._opened is not None and self._opened.inherited:
            raise StoreError(f"{self.path} was opened before this process was forked: open it here as well")
        if self._opened is None:
            raise StoreError(f"{self.path} is not open: call open() first, and nothing after close()")
        return self._opened
