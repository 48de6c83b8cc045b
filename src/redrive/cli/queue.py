"""`redrive queue`: list queues, pause and resume one, remove all that waits in one, delete one."""

from __future__ import annotations

from cyclopts import App
from rich.console import RenderableType
from rich.text import Text

from redrive.cli.output import Output, name
from redrive.cli.problems import Exit
from redrive.cli.render.store import queue_table
from redrive.cli.session import NO_FLAGS, Flags, Session, session
from redrive.core.store import QueueCounts
from redrive.office.documents.control import DeletedQueue, PurgedQueue, QueueState, queue_counts_list

queue = App(name="queue")


@queue.command(name="list")
async def list_queues(*, flags: Flags = NO_FLAGS) -> None:
    """Every queue with its counts."""
    async with session(flags) as current:
        found = await current.office.queues.every()
        now = current.store.now()
        current.output.answer(queue_counts_list(found), lambda: queue_table(current.output, found, now))


@queue.command
async def pause(queue: str, /, *, flags: Flags = NO_FLAGS) -> None:
    """Hand out nothing more of a queue; what runs goes on.

    Parameters
    ----------
    queue
        The queue.
    """
    async with session(flags) as current:
        found = await current.office.queues.pause(queue)
        _answer(current.output, found, "paused", f"again with: redrive queue resume {found}")


@queue.command
async def resume(queue: str, /, *, flags: Flags = NO_FLAGS) -> None:
    """Hand out a paused queue's messages again.

    Parameters
    ----------
    queue
        The queue.
    """
    async with session(flags) as current:
        found = await current.office.queues.resume(queue)
        _answer(current.output, found, "running", "")


@queue.command
async def purge(queue: str, /, *, yes: bool = False, flags: Flags = NO_FLAGS) -> int:
    """Remove every waiting message of a queue; dead letters and what runs stay.

    Parameters
    ----------
    queue
        The queue.
    yes
        Do not ask.
    """
    async with session(flags) as current:
        found = await current.office.queues.named(queue)
        waiting = await _waiting(current, found)
        what = "what waits to be relayed there" if waiting is None else f"{waiting:,} waiting messages"
        question = f"purge {found}: remove {what} for good"
        if not await current.output.confirm(question, yes=yes):
            return Exit.FAILED
        with current.output.progress(f"purging {found}", waiting) as progress:
            removed = await current.office.queues.purge(found, progress)
        answer = f"{removed:,} {'message' if removed == 1 else 'messages'} removed from {found}"
        current.output.answer(PurgedQueue(queue=found, removed=removed), lambda: name(answer))
        return Exit.OK


@queue.command
async def delete(queue: str, /, *, yes: bool = False, flags: Flags = NO_FLAGS) -> int:
    """Forget a queue that nobody needs any more, with its tenants' settings and finished records.

    Refused while a message in it is waiting, running or dead, or has just finished, while a live worker
    serves it, and while an operation concerns it. The audit stays. A later message creates it again.

    Parameters
    ----------
    queue
        The queue.
    yes
        Do not ask.
    """
    async with session(flags) as current:
        found = await current.office.queues.named(queue)
        question = f"delete {found}: its settings, finished records and dedupe keys go for good"
        if not await current.output.confirm(question, yes=yes):
            return Exit.FAILED
        with current.output.progress(f"deleting {found}", None) as progress:
            removed = await current.office.queues.delete(found, progress)
        answer = f"{found} is deleted; {removed:,} finished records went with it"
        current.output.answer(DeletedQueue(queue=found, removed=removed), lambda: name(answer))
        return Exit.OK


async def _waiting(current: Session, queue: str) -> int | None:
    """How many messages of a queue may be removed; None where a broker has them, which lets go of none."""
    counts: list[QueueCounts] = [one.counts for one in await current.office.queues.every()]
    one = next((one for one in counts if one.queue == queue), None)
    if one is None or one.broker_waiting is not None:
        return None
    return one.pending + one.scheduled + one.retry_scheduled


def _answer(output: Output, queue: str, state: str, advice: str) -> None:
    def render() -> RenderableType:
        return Text.assemble(name(queue), f" is {state}")

    output.answer(QueueState(queue=queue, state=state), render)
    if advice:
        output.note(advice)
