"""What is read of a store for all rules of one look, each once and when the first rule asks for it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

from redrive.core.condition import Capacity, Description
from redrive.core.errors import RedriveError
from redrive.core.records import Record
from redrive.core.store import WORKER_RECORDS, QueueCounts
from redrive.core.totals import MILLIONTHS, SUM, Measured, Minute, Total
from redrive.core.verdict import Reason
from redrive.office.filters import Filter
from redrive.office.filters.terms import Comparison, Dated, MomentField, Named, NameField
from redrive.office.index import Index, TenantPart
from redrive.office.metrics import Sums, counted_together
from redrive.office.operations import records as operations
from redrive.office.operations.operation import NoOperation, Operation, OperationState
from redrive.office.ports import OfficeStore
from redrive.office.queues import queue_term
from redrive.office.records import every_record
from redrive.office.retention.notice import Notice, notices

T = TypeVar("T")


class Unread(RedriveError):
    """A figure that cannot be known yet: the alerts that need it stay as they are."""


class Look:
    """A store at one instant."""

    def __init__(self, store: OfficeStore, index: Index) -> None:
        self.now = store.now()
        self._store = store
        self._index = index
        self._read: dict[object, Any] = {}

    async def queues(self) -> list[QueueCounts]:
        return await self._once("queues", self._store.queues)

    async def capacity(self) -> Capacity:
        return await self._once("capacity", self._store.capacity)

    async def described(self) -> Description:
        return await self._once("described", self._store.describe)

    async def leaving(self) -> list[Notice]:
        """The letters that are about to leave for an archive, by queue."""
        return await self._once("leaving", lambda: notices(self._store))

    async def workers(self) -> list[Record]:
        """What live workers say of themselves."""
        return await self._once("workers", self._workers)

    async def minutes(self, window_s: float) -> list[Minute]:
        """What became of the messages of each queue within the last while."""
        since_at = self.now - round(1000 * window_s)
        return await self._once(("minutes", since_at), lambda: self._store.minutes(None, since_at))

    async def handovers(self) -> dict[str, tuple[int, float]]:
        """How many first attempts of each queue were ever handed over, and the seconds they had waited."""
        found: dict[str, tuple[int, float]] = {}
        for one in await self._totals():
            if one.name is Measured.HANDOVER:
                count, seconds = found.get(one.label, (0, 0.0))
                if one.part == SUM:
                    found[one.label] = count, seconds + one.count / MILLIONTHS
                else:
                    found[one.label] = count + one.count, seconds
        return found

    async def together(self) -> list[QueueCounts]:
        """The queues beyond the last label: what is counted of them is counted as one, OTHER."""
        queues = await self.queues()
        names = set(counted_together(Sums(await self._totals()), queues))
        return [one for one in queues if one.queue in names]

    async def know_letters(self) -> None:
        """Have the index take in every letter; Unread where it could not."""
        freshness = await self._once("letters", self._index.catch_up)
        if freshness.behind:
            why = f": {freshness.problem}" if freshness.problem else ""
            raise Unread(f"the index does not have all dead letters yet{why}")

    async def parts(self, queue: str | None = None) -> list[TenantPart]:
        """Dead letters by tenant and reason, without those whose recipient is refused."""
        await self.know_letters()
        asked = Filter(() if queue is None else (queue_term(queue),))
        split = await self._once(("parts", queue), lambda: self._index.split(asked))
        return [part for part in split if part.reason != Reason.BOUNCED]

    async def bounced(self, queues: tuple[str, ...] | None, window_s: float) -> int:
        """The letters of these queues, or with None of all, that died within the last while because their
        recipient is refused."""
        if queues == ():
            return 0
        await self.know_letters()
        recent = Dated(MomentField.MOVED, Comparison.AT_LEAST, self.now - round(1000 * window_s))
        asked = Filter((recent,) if queues is None else (Named(NameField.QUEUE, queues), recent))
        split = await self._once(("bounced", queues, window_s), lambda: self._index.split(asked))
        return sum(part.count for part in split if part.reason == Reason.BOUNCED)

    async def halted(self) -> list[Operation]:
        return await self._once("halted", self._halted)

    async def _once(self, key: object, read: Callable[[], Awaitable[T]]) -> T:
        if key not in self._read:
            self._read[key] = await read()
        value: T = self._read[key]
        return value

    async def _totals(self) -> list[Total]:
        return await self._once("totals", self._store.totals)

    async def _workers(self) -> list[Record]:
        return [record async for record in every_record(self._store, WORKER_RECORDS)]

    async def _halted(self) -> list[Operation]:
        found = []
        for operation_id in await operations.live(self._store):
            try:
                found.append(await operations.load(self._store, operation_id))
            except (NoOperation, operations.UnreadableOperation):
                continue
        return [one for one in found if one.state is OperationState.HALTED]


def figures_of(worker: Record) -> Mapping[str, Any]:
    """What a worker says of itself; one of an older version says nothing."""
    figures: Mapping[str, Any] = worker.document.get("figures", {})
    return figures
