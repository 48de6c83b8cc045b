"""A store by another store: every port, handed on to the ledger beside a broker.

What a broker does itself is said where it is done, in `carried`; nothing is decided here.
"""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet

from redrive.core.condition import Capacity
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
from redrive.core.message import Delivery
from redrive.core.ports import PAGE, Cleanup
from redrive.core.records import Document, JournalRow, Record
from redrive.core.store import Deletion, Feed, OwnIndex, Store
from redrive.core.totals import Minute, Total, TotalsBatch


class BesideLedger:
    """What a broker leaves to its ledger."""

    def __init__(self, ledger: Store) -> None:
        self.ledger = ledger

    @property
    def skew_ms(self) -> int:
        """Added to the ledger's clock; 0 outside tests."""
        return self.ledger.skew_ms

    @skew_ms.setter
    def skew_ms(self, skew_ms: int) -> None:
        self.ledger.skew_ms = skew_ms

    @property
    def index(self) -> OwnIndex | Feed:
        return self.ledger.index

    @property
    def appends_at_once(self) -> int:
        return self.ledger.appends_at_once

    def now(self) -> int:
        return self.ledger.now()

    async def capacity(self) -> Capacity:
        return await self.ledger.capacity()

    async def take(self, queue: str, keys: Sequence[LetterKey], token: str, lease_s: float) -> list[Delivery]:
        return await self.ledger.take(queue, keys, token, lease_s)

    async def cleanup(self, cleanup: Cleanup) -> int:
        return await self.ledger.cleanup(cleanup)

    async def get(self, message_id: str) -> Account | None:
        return await self.ledger.get(message_id)

    async def accounts(self, queue: str, ids: Sequence[str]) -> list[Account]:
        return await self.ledger.accounts(queue, ids)

    async def family(self, parent_id: str) -> list[Account]:
        return await self.ledger.family(parent_id)

    async def letters(self, queue: str | None, *, after: str | None = None, limit: int = PAGE) -> LetterPage:
        return await self.ledger.letters(queue, after=after, limit=limit)

    async def messages(
        self,
        queue: str,
        phase: MessagePhase,
        *,
        tenant: str | None = None,
        after: str | None = None,
        limit: int = PAGE,
    ) -> MessagePage:
        return await self.ledger.messages(queue, phase, tenant=tenant, after=after, limit=limit)

    async def tally(self, operation: str) -> OperationTally:
        return await self.ledger.tally(operation)

    async def remove(
        self,
        queue: str,
        letters: Sequence[LetterKey],
        move: Move,
        *,
        actor: str,
        operation: str | None = None,
    ) -> AbstractSet[str]:
        return await self.ledger.remove(queue, letters, move, actor=actor, operation=operation)

    async def undiscard(
        self, queue: str, letters: Sequence[LetterKey], *, operation: str | None = None
    ) -> AbstractSet[str]:
        return await self.ledger.undiscard(queue, letters, operation=operation)

    async def bury(self, letters: Sequence[DeadLetter]) -> AbstractSet[str]:
        return await self.ledger.bury(letters)

    async def cancel(self, queue: str, ids: Sequence[str], *, actor: str) -> AbstractSet[str]:
        return await self.ledger.cancel(queue, ids, actor=actor)

    async def purge(self, queue: str, *, actor: str, tenant: str | None = None, limit: int = PAGE) -> int:
        return await self.ledger.purge(queue, actor=actor, tenant=tenant, limit=limit)

    async def run_now(self, queue: str, ids: Sequence[str]) -> AbstractSet[str]:
        return await self.ledger.run_now(queue, ids)

    async def lanes(self, queue: str, *, after: str | None = None, limit: int = PAGE) -> list[Lane]:
        return await self.ledger.lanes(queue, after=after, limit=limit)

    async def lane(self, queue: str, tenant: str) -> Lane | None:
        return await self.ledger.lane(queue, tenant)

    async def lanes_of(self, queue: str, tenants: Sequence[str]) -> list[Lane]:
        return await self.ledger.lanes_of(queue, tenants)

    async def next_lanes(self, queue: str, *, limit: int = PAGE) -> list[Lane]:
        return await self.ledger.next_lanes(queue, limit=limit)

    async def set_lane(self, queue: str, tenant: str, change: LaneChange) -> Lane:
        return await self.ledger.set_lane(queue, tenant, change)

    async def set_queue(self, queue: str, state: LaneState) -> None:
        await self.ledger.set_queue(queue, state)

    async def delete_queue(self, queue: str, *, limit: int = PAGE) -> Deletion:
        return await self.ledger.delete_queue(queue, limit=limit)

    async def get_record(self, kind: str, record_id: str) -> Record | None:
        return await self.ledger.get_record(kind, record_id)

    async def put_record(
        self,
        kind: str,
        record_id: str,
        document: Document,
        *,
        expected: int | None,
        ttl_s: float | None = None,
    ) -> int:
        return await self.ledger.put_record(kind, record_id, document, expected=expected, ttl_s=ttl_s)

    async def list_records(self, kind: str, *, after: str | None = None, limit: int = PAGE) -> list[Record]:
        return await self.ledger.list_records(kind, after=after, limit=limit)

    async def delete_record(self, kind: str, record_id: str, *, expected: int | None) -> bool:
        return await self.ledger.delete_record(kind, record_id, expected=expected)

    async def write_journal(self, name: str, document: Document, *, expected_head: int | None = None) -> int:
        return await self.ledger.write_journal(name, document, expected_head=expected_head)

    async def read_journal(self, name: str, *, after: int = 0, limit: int = PAGE) -> list[JournalRow]:
        return await self.ledger.read_journal(name, after=after, limit=limit)

    async def add_totals(self, batch: TotalsBatch) -> None:
        await self.ledger.add_totals(batch)

    async def totals(self) -> list[Total]:
        return await self.ledger.totals()

    async def minutes(self, queue: str | None, since_at: int) -> list[Minute]:
        return await self.ledger.minutes(queue, since_at)

    async def letter_ages(self, queue: str, instants: Sequence[int]) -> list[int]:
        return await self.ledger.letter_ages(queue, instants)
