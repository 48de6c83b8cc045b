"""What a store is besides messages: lanes, records, a journal, totals, and the file or server behind them.

`Store` is all of it together with the ports of messages; what all ports have in common is in `core.ports`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

from redrive.core.condition import Capacity, Description, Finding
from redrive.core.lanes import Lane, LaneChange, LaneState
from redrive.core.letters import ChangePage
from redrive.core.ports import PAGE, KnownQueues, Ledger, Moves, Outbox, Source, Upkeep
from redrive.core.records import Document, JournalRow, Record
from redrive.core.totals import Minute, Total, TotalsBatch

WORKER_RECORDS = "worker"


@dataclass(frozen=True, slots=True)
class QueueCounts:
    """A queue's state and how many of its messages are where; `broker_waiting` and `broker_dead` are those
    that a broker has in the queue and in its dead-letter queue, None where there is no broker.

    `consumers`: so many are handed its messages by a broker, whoever they are. `relayed`: every worker takes
    what waits here on to a broker, without a handler.
    """

    queue: str
    state: LaneState
    pending: int
    scheduled: int
    retry_scheduled: int
    processing: int
    published: int
    dlq: int
    suspects: int
    oldest_due_at: int | None
    broker_waiting: int | None = None
    broker_dead: int | None = None
    consumers: int = 0
    relayed: bool = False


@dataclass(frozen=True, slots=True)
class Deletion:
    """What came of a page of deleting a queue: it is gone, or so many finished records are, or something
    stands in its way. `remembered_until_at`: until then the latest finished message has to be known."""

    gone: bool
    removed: int = 0
    waiting: int = 0
    running: int = 0
    dead: int = 0
    remembered_until_at: int | None = None

    @property
    def refused(self) -> bool:
        return self.waiting + self.running + self.dead > 0 or self.remembered_until_at is not None


class Lanes(KnownQueues, Protocol):
    """Queues and tenants: their counters, and the switches people may set."""

    async def queues(self) -> list[QueueCounts]:
        """Every queue that ever had a message or a setting, by name."""
        ...

    async def lanes(self, queue: str, *, after: str | None = None, limit: int = PAGE) -> list[Lane]:
        """A queue's lanes by tenant name, from after `after`."""
        ...

    async def lane(self, queue: str, tenant: str) -> Lane | None:
        """One lane, or None when the tenant never had a message or a setting here."""
        ...

    async def lanes_of(self, queue: str, tenants: Sequence[str]) -> list[Lane]:
        """The lanes of some tenants, in any order; without those that never had a message or a setting."""
        ...

    async def next_lanes(self, queue: str, *, limit: int = PAGE) -> list[Lane]:
        """The lanes whose turn comes next, in that order. A lane whose work has become due since the last
        claim may be missing."""
        ...

    async def set_lane(self, queue: str, tenant: str, change: LaneChange) -> Lane:
        """Change a lane's state, weight, cap or rate; it takes effect on what already waits."""
        ...

    async def set_queue(self, queue: str, state: LaneState) -> None:
        """Pause or resume a whole queue."""
        ...

    async def delete_queue(self, queue: str, *, limit: int = PAGE) -> Deletion:
        """Forget a queue with its lanes, switches, finished records, dedupe keys and what was counted of it,
        as if it had never been: a page of finished records a call, and with the last of them all the rest.

        Refused, with nothing changed, while a message is waiting, running or dead, or finished within
        `remember_s`. An append comes before it, and it is refused; or after it, and the queue is new.
        """
        ...


class Records(Protocol):
    """Versioned JSON documents by kind and id: keys, operations, notes, workers."""

    async def get_record(self, kind: str, record_id: str) -> Record | None:
        """The record, or None when there is none or it has expired."""
        ...

    async def put_record(
        self,
        kind: str,
        record_id: str,
        document: Document,
        *,
        expected: int | None,
        ttl_s: float | None = None,
    ) -> int:
        """Write when the version is `expected` (0: must not exist, None: whatever it is); return the new
        version. Otherwise VersionConflict. With ttl_s it expires by itself."""
        ...

    async def list_records(self, kind: str, *, after: str | None = None, limit: int = PAGE) -> list[Record]:
        """Records of a kind by id, from after `after`."""
        ...

    async def delete_record(self, kind: str, record_id: str, *, expected: int | None) -> bool:
        """Delete under the same rule as put_record; False when there was none."""
        ...


class Journal(Protocol):
    """Rows that are only ever added: the audit."""

    async def write_journal(self, name: str, document: Document, *, expected_head: int | None = None) -> int:
        """Add a row after `expected_head` (None: after whatever is last); return its position."""
        ...

    async def read_journal(self, name: str, *, after: int = 0, limit: int = PAGE) -> list[JournalRow]:
        """Rows in order, from after a position."""
        ...


class Totals(Protocol):
    """What happened, added up over all processes. Nothing else depends on it."""

    async def add_totals(self, batch: TotalsBatch) -> None:
        """Add what a process counted, to the totals and to the present minute of each queue.

        A batch of a number that its source has used, or passed, changes nothing: it may be repeated, for a
        day. A label is given while there are labels of its kind left; otherwise what is counted goes to
        OTHER.
        """
        ...

    async def totals(self) -> list[Total]:
        """Everything that was counted, in any order."""
        ...

    async def minutes(self, queue: str | None, since_at: int) -> list[Minute]:
        """What became of the messages of a queue, or with None of each queue, minute by minute from an
        instant on, at most for the last week; without minutes in which nothing happened."""
        ...

    async def letter_ages(self, queue: str, instants: Sequence[int]) -> list[int]:
        """How many of a queue's dead letters died at or before each of these instants, which ascend."""
        ...


class Feed(Protocol):
    """What tells a disposable index what became of a queue's letters."""

    async def changes(self, queue: str, *, after: int, limit: int = PAGE) -> ChangePage:
        """Letters that died or left since a position, each id once and without what it shares; 0 is the
        beginning, where only what is dead now is told."""
        ...


@dataclass(frozen=True, slots=True)
class OwnIndex:
    """The store is itself the index: a SQLite file with the index's tables, read there and never written."""

    path: str


@runtime_checkable
class Backup(Protocol):
    """A store that can copy itself into a file while it is in use; a server has its own tools for that."""

    async def backup(self, target: Path, progress: Callable[[int, int], None] | None = None) -> None:
        """Copy it into a new file; `progress` hears of parts done and parts in all."""
        ...


class Inspection(Protocol):
    """How the live store stands."""

    async def describe(self) -> Description:
        """The address and the durability class, as found on the live store."""
        ...

    async def capacity(self) -> Capacity:
        """How full the live store is."""
        ...

    async def examine(self) -> list[Finding]:
        """Everything about the live store that an operator should know, line by line."""
        ...


class Backend(Inspection, Protocol):
    """The file or server behind the ports: nothing of the data. Opened once, used from one event loop, closed
    once."""

    skew_ms: int
    """Added to the store's clock; 0 outside tests."""

    @property
    def index(self) -> OwnIndex | Feed:
        """Where the office's index gets its letters from."""
        ...

    async def open(self) -> None:
        """Connect, check, migrate; StoreError says what is wrong and what to do."""
        ...

    async def close(self) -> None:
        """Let go of everything; calls under way end first."""
        ...

    def abandon(self) -> None:
        """Let go of everything at once: the event loop it was used from is closed, nothing is under way."""
        ...

    def twin(self) -> Store:
        """Another, unopened store on the same data, for another thread's event loop."""
        ...


class Store(Outbox, Source, Upkeep, Ledger, Moves, Lanes, Records, Journal, Totals, Backend, Protocol):
    """Everything that one store is. Whoever needs less of it asks for less."""
