"""Queues: what they hold, who serves them, and the switches a person may set.

A queue is named by its name or by that of its dead-letter queue. Whoever is bound to a tenant knows only the
queues that the tenant has used, and sees its part of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from redrive.core.condition import Capacity, Description
from redrive.core.lanes import LaneState
from redrive.core.ports import PAGE, WORKER_RECORDS, QueueCounts, Store
from redrive.core.records import Record
from redrive.office.audit import Actor, action
from redrive.office.filters.terms import Named, NameField
from redrive.office.records import every_record
from redrive.office.retention.notice import Notice, notices
from redrive.office.view import NotFound, View

_DLQ_ENDINGS = (":dlq", ".dlq")
_NAMES_SHOWN = 10


class NoQueue(NotFound):
    """There is no queue of this name that the actor knows of."""

    def __init__(self, given: str, known: list[str]) -> None:
        names = ", ".join(known[:_NAMES_SHOWN]) or "none yet"
        super().__init__(f"no queue {given!r} in this store; there is: {names}")


@dataclass(frozen=True, slots=True)
class LiveWorker:
    """A worker that has said within the last seconds that it is alive."""

    name: str
    host: str
    pid: int
    queues: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class QueueStatus:
    """A queue's counts, and how many live workers have a handler for it."""

    counts: QueueCounts
    workers: int

    @property
    def no_handler(self) -> bool:
        """Work waits and nobody serves it."""
        waiting = self.counts.pending + self.counts.scheduled + self.counts.retry_scheduled
        return waiting > 0 and self.workers == 0


@dataclass(frozen=True, slots=True)
class QueuePart:
    """A queue, or a tenant's part of it."""

    queue: str
    state: LaneState
    waiting: int
    processing: int
    published: int
    dead: int


@dataclass(frozen=True, slots=True)
class StoreStatus:
    """How a store and its queues stand, and the letters that are about to leave."""

    described: Description
    capacity: Capacity
    queues: list[QueueStatus]
    notices: list[Notice]


class Queues:
    """The verbs on queues."""

    def __init__(self, store: Store, actor: Actor, view: View) -> None:
        self._store = store
        self._actor = actor
        self._view = view

    async def named(self, given: str) -> str:
        """The queue of this name, or of this dead-letter queue's name; NoQueue when there is none."""
        names = await self._store.queue_names()
        stripped = next((given.removesuffix(end) for end in _DLQ_ENDINGS if given.endswith(end)), given)
        for candidate in (given, stripped):
            if candidate in names and await self._knows(candidate):
                return candidate
        raise NoQueue(given, [name for name in names if await self._knows(name)])

    async def parts(self) -> list[QueuePart]:
        """Every queue that the actor knows, or its tenant's part of it."""
        counts, tenant = await self._store.queues(), self._view.scope
        if tenant is None:
            return [_part(one) for one in counts]
        lanes = [(one, await self._store.lane(one.queue, tenant)) for one in counts]
        return [
            QueuePart(one.queue, one.state, lane.waiting, lane.in_flight, lane.done, lane.dead)
            for one, lane in lanes
            if lane is not None
        ]

    async def every(self) -> list[QueueStatus]:
        """Every queue with its counts and its live workers."""
        self._view.demand_all()
        workers = await live_workers(self._store)
        return [
            QueueStatus(counts, sum(counts.queue in worker.queues for worker in workers))
            for counts in await self._store.queues()
        ]

    async def status(self) -> StoreStatus:
        """How all stands."""
        return StoreStatus(
            queues=await self.every(),
            described=await self._store.describe(),
            capacity=await self._store.capacity(),
            notices=await notices(self._store),
        )

    async def pause(self, given: str) -> str:
        """Hand out nothing more of a queue; its name."""
        return await self._set(given, "pause", LaneState.PAUSED)

    async def resume(self, given: str) -> str:
        """Hand out again."""
        return await self._set(given, "resume", LaneState.RUNNING)

    async def purge(self, given: str, progress: Callable[[int], None] = lambda _: None) -> int:
        """Remove every waiting message of a queue; dead letters and running ones stay."""
        self._view.demand_all()
        queue, total = await self.named(given), 0
        async with action(self._store, self._actor, "purge", {"queue": queue}) as current:
            while count := await self._store.purge(queue, actor=self._actor.name, limit=PAGE):
                total += count
                current.result["moved"] = total
                progress(total)
        return total

    async def _set(self, given: str, verb: str, state: LaneState) -> str:
        self._view.demand_all()
        queue = await self.named(given)
        async with action(self._store, self._actor, verb, {"queue": queue}):
            await self._store.set_queue(queue, state)
        return queue

    async def _knows(self, queue: str) -> bool:
        tenant = self._view.scope
        return tenant is None or await self._store.lane(queue, tenant) is not None


async def live_workers(store: Store) -> list[LiveWorker]:
    """The workers whose announcement has not expired."""
    return [_worker(record) async for record in every_record(store, WORKER_RECORDS)]


def queue_term(queue: str) -> Named:
    """The letters of a queue, as a term of a filter."""
    return Named(NameField.QUEUE, (queue,))


def _part(counts: QueueCounts) -> QueuePart:
    waiting = counts.pending + counts.scheduled + counts.retry_scheduled
    return QueuePart(counts.queue, counts.state, waiting, counts.processing, counts.published, counts.dlq)


def _worker(record: Record) -> LiveWorker:
    document = record.document
    return LiveWorker(record.id, str(document["host"]), int(document["pid"]), tuple(document["queues"]))
