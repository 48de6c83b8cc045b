"""Queues: what they hold, who serves them, and the switches a person may set."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from redrive.core.lanes import LaneState
from redrive.core.message import check_queue
from redrive.core.ports import PAGE, WORKER_RECORDS, QueueCounts, Store
from redrive.core.records import Record
from redrive.office.audit import Actor, action
from redrive.office.records import every_record


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
        """Work waits and nobody serves it (R10)."""
        waiting = self.counts.pending + self.counts.scheduled + self.counts.retry_scheduled
        return waiting > 0 and self.workers == 0


class Queues:
    """The verbs on queues, for one actor."""

    def __init__(self, store: Store, actor: Actor) -> None:
        self._store = store
        self._actor = actor

    async def status(self) -> list[QueueStatus]:
        """Every queue with its counts and its live workers."""
        workers = await live_workers(self._store)
        return [
            QueueStatus(counts, sum(counts.queue in worker.queues for worker in workers))
            for counts in await self._store.queues()
        ]

    async def pause(self, queue: str) -> None:
        """Hand out nothing more of this queue."""
        await self._set(queue, "pause", LaneState.PAUSED)

    async def resume(self, queue: str) -> None:
        """Hand out again."""
        await self._set(queue, "resume", LaneState.RUNNING)

    async def purge(self, queue: str, progress: Callable[[int], None] = lambda _: None) -> int:
        """Remove every waiting message of a queue; dead letters and running ones stay."""
        total = 0
        async with action(self._store, self._actor, "purge", {"queue": check_queue(queue)}) as current:
            while count := await self._store.purge(queue, actor=self._actor.name, limit=PAGE):
                total += count
                current.result["moved"] = total
                progress(total)
        return total

    async def _set(self, queue: str, verb: str, state: LaneState) -> None:
        async with action(self._store, self._actor, verb, {"queue": check_queue(queue)}):
            await self._store.set_queue(queue, state)


async def live_workers(store: Store) -> list[LiveWorker]:
    """The workers whose announcement has not expired."""
    return [_worker(record) async for record in every_record(store, WORKER_RECORDS)]


def _worker(record: Record) -> LiveWorker:
    document = record.document
    return LiveWorker(record.id, str(document["host"]), int(document["pid"]), tuple(document["queues"]))
