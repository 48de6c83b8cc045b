"""Queues: what they hold, who serves them, and the switches a person may set.

A queue is named by its name or by that of its dead-letter queue. Whoever is bound to a tenant knows only the
queues that the tenant has used, and sees its part of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from redrive.core.lanes import LaneState
from redrive.core.ports import PAGE
from redrive.core.records import Record
from redrive.core.store import WORKER_RECORDS, QueueCounts, Records
from redrive.office.audit import Actor, action
from redrive.office.deletion import delete_queue
from redrive.office.filters.terms import Named, NameField
from redrive.office.ports import LetterStore
from redrive.office.records import every_record
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
    """A worker that has said within the last seconds that it is alive.

    So many handlers run, of so many that may; `lag_s`: the longest wait for its event loop. None: not said.
    """

    name: str
    host: str
    pid: int
    queues: tuple[str, ...]
    running: int | None = None
    limit: int | None = None
    lag_s: float | None = None


@dataclass(frozen=True, slots=True)
class QueueStatus:
    """A queue's counts, and how many live workers have a handler for it."""

    counts: QueueCounts
    workers: int

    @property
    def no_handler(self) -> bool:
        """Work waits and nobody serves it."""
        waiting = self.counts.pending + self.counts.scheduled + self.counts.retry_scheduled
        return waiting > 0 and self.workers == 0 and not self.counts.consumers


@dataclass(frozen=True, slots=True)
class QueuePart:
    """A queue, or a tenant's part of it; of a broker's queue, what the broker itself has."""

    queue: str
    state: LaneState
    waiting: int
    processing: int
    published: int
    dead: int
    broker_waiting: int | None = None
    broker_dead: int | None = None


class Queues:
    """The verbs on queues."""

    def __init__(self, store: LetterStore, actor: Actor, view: View) -> None:
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
        raise NoQueue(given, await self.known())

    async def target(self, given: str) -> str:
        """A queue that letters may go to: one there is, or one that a live worker serves; else NoQueue."""
        try:
            return await self.named(given)
        except NoQueue:
            workers = [] if self._view.scope is not None else await live_workers(self._store)
            if any(given in worker.queues for worker in workers):
                return given
            raise

    async def known(self) -> list[str]:
        """The names of the queues that the actor knows."""
        return [name for name in await self._store.queue_names() if await self._knows(name)]

    async def parts(self) -> list[QueuePart]:
        """Every queue that the actor knows, or its tenant's part of it."""
        counts, tenant = await self._store.queues(), self._view.scope
        if tenant is None:
            return [_part(one) for one in counts]
        lanes = [(one, await self._store.lane(one.queue, tenant)) for one in counts]
        return [
            QueuePart(
                one.queue,
                lane.state if one.state is LaneState.RUNNING else one.state,
                lane.waiting,
                lane.in_flight,
                lane.done,
                lane.dead,
            )
            for one, lane in lanes
            if lane is not None
        ]

    async def every(self) -> list[QueueStatus]:
        """Every queue with its counts and its live workers."""
        self._view.demand_all()
        return statuses(await self._store.queues(), await live_workers(self._store))

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

    async def delete(self, given: str, progress: Callable[[int], None] = lambda _: None) -> int:
        """Forget a queue that has nothing open, or QueueInUse; how many finished records went with it."""
        self._view.demand_all()
        queue = await self.named(given)
        workers = sum(queue in worker.queues for worker in await live_workers(self._store))
        return await delete_queue(self._store, self._actor, queue, workers, progress)

    async def _set(self, given: str, verb: str, state: LaneState) -> str:
        self._view.demand_all()
        queue = await self.named(given)
        async with action(self._store, self._actor, verb, {"queue": queue}):
            await self._store.set_queue(queue, state)
        return queue

    async def _knows(self, queue: str) -> bool:
        tenant = self._view.scope
        return tenant is None or await self._store.lane(queue, tenant) is not None


async def live_workers(store: Records) -> list[LiveWorker]:
    """The workers whose announcement has not expired."""
    return [_worker(record) async for record in every_record(store, WORKER_RECORDS)]


def statuses(counts: Sequence[QueueCounts], workers: Sequence[LiveWorker]) -> list[QueueStatus]:
    """Queues with how many of these workers serve each."""
    serving = Counter(queue for worker in workers for queue in worker.queues)
    return [QueueStatus(one, len(workers) if one.relayed else serving[one.queue]) for one in counts]


def queue_term(queue: str) -> Named:
    """The letters of a queue, as a term of a filter."""
    return Named(NameField.QUEUE, (queue,))


def _part(counts: QueueCounts) -> QueuePart:
    waiting = counts.pending + counts.scheduled + counts.retry_scheduled
    return QueuePart(
        counts.queue,
        counts.state,
        waiting,
        counts.processing,
        counts.published,
        counts.dlq,
        counts.broker_waiting,
        counts.broker_dead,
    )


def _worker(record: Record) -> LiveWorker:
    document = record.document
    figures: Mapping[str, Any] = document.get("figures", {})
    return LiveWorker(
        record.id,
        str(document["host"]),
        int(document["pid"]),
        tuple(document["queues"]),
        figures.get("running"),
        figures.get("limit"),
        figures.get("lagS"),
    )
