"""Deleting a queue that is done with: what stands in its way is said in words, what is left goes in pages.

The store refuses what is open, atomically; here it is asked whether somebody still works with the queue.
Known weakness: a worker or an operation that begins after that question finds a queue that is new.
"""

from __future__ import annotations

from collections.abc import Callable

from redrive.core.errors import RedriveError
from redrive.core.store import Deletion
from redrive.core.values import instant
from redrive.office.audit import Actor, action
from redrive.office.operations import records
from redrive.office.operations.operation import Operation, OperationState
from redrive.office.ports import LetterStore
from redrive.office.retention.notice import RETENTION_RECORDS


class QueueInUse(RedriveError):
    """A queue that cannot be deleted now; says why, and what to do."""

    def __init__(self, queue: str, why: str, advice: str) -> None:
        super().__init__(f"{queue} is not deleted: {why}; {advice}")


async def delete_queue(
    store: LetterStore, actor: Actor, queue: str, workers: int, progress: Callable[[int], None]
) -> int:
    """Delete a queue, or QueueInUse; how many finished records went with it."""
    async with action(store, actor, "delete queue", {"queue": queue}) as current:
        current.result["removed"] = 0
        if workers:
            served = "1 live worker serves it" if workers == 1 else f"{workers} live workers serve it"
            raise QueueInUse(queue, served, "stop them, or take their handler for it away, first")
        if (operation := await _concerned(store, queue)) is not None:
            why = f"operation {operation.id} is {operation.state} and concerns it"
            raise QueueInUse(queue, why, f"wait for its end, or redrive ops cancel {operation.id}")
        while not (page := await store.delete_queue(queue)).gone:
            if page.refused:
                raise _refusal(queue, page)
            current.result["removed"] += page.removed
            progress(current.result["removed"])
        await store.delete_record(RETENTION_RECORDS, queue, expected=None)
        return int(current.result["removed"])


def _refusal(queue: str, page: Deletion) -> QueueInUse:
    if page.remembered_until_at is not None:
        until = instant(page.remembered_until_at)
        why = f"a message of it has just finished, and a repeat of it has to be known until {until}"
        return QueueInUse(queue, why, "delete it then")
    counts = {"waiting": page.waiting, "running": page.running, "dead": page.dead}
    why = "it has messages: " + ", ".join(f"{count:,} {word}" for word, count in counts.items() if count)
    advice = (
        f"redrive queue purge {queue} removes what waits, redrive dlq discard --queue {queue} what is dead"
    )
    return QueueInUse(queue, why, advice)


async def _concerned(store: LetterStore, queue: str) -> Operation | None:
    """An operation that has not ended and may still move letters of a queue, or bring some into it."""
    for operation_id in await records.live(store):
        operation = await records.load(store, operation_id)
        if not operation.state.ended and await _concerns(store, operation, queue):
            return operation
    return None


async def _concerns(store: LetterStore, operation: Operation, queue: str) -> bool:
    if operation.order.to_queue == queue or OperationState.FREEZING in (operation.state, operation.was):
        return True
    for number in range(operation.chunk, operation.frozen.chunks):
        if any(name == queue for name, _ in await records.read_chunk(store, operation.id, number)):
            return True
    return False
