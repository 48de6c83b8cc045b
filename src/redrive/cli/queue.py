"""`redrive queue`: list queues, pause and resume one, remove all that waits in one."""

from __future__ import annotations

from cyclopts import App
from rich.console import RenderableType
from rich.text import Text

from redrive.cli.output import Output, name
from redrive.cli.problems import Exit
from redrive.cli.render.store import queue_table
from redrive.cli.session import NO_FLAGS, Flags, Session, session
from redrive.core.ports import QueueCounts
from redrive.office.documents.control import queue_document

queue = App(name="queue")


@queue.command(name="list")
async def list_queues(*, flags: Flags = NO_FLAGS) -> None:
    """Every queue with its counts."""
    async with session(flags) as current:
        found = await current.office.queues.every()
        document = {"queues": [queue_document(one) for one in found]}
        current.output.answer(document, lambda: queue_table(current.output, found, current.store.now()))


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
        question = f"purge {found}: remove {waiting:,} waiting messages for good"
        if not await current.output.confirm(question, yes=yes):
            return Exit.FAILED
        with current.output.progress(f"purging {found}", waiting) as progress:
            removed = await current.office.queues.purge(found, progress)
        document = {"queue": found, "removed": removed}
        current.output.answer(document, lambda: Text(f"{removed:,} messages removed from {found}"))
        return Exit.OK


async def _waiting(current: Session, queue: str) -> int:
    counts: list[QueueCounts] = [one.counts for one in await current.office.queues.every()]
    return sum(one.pending + one.scheduled + one.retry_scheduled for one in counts if one.queue == queue)


def _answer(output: Output, queue: str, state: str, advice: str) -> None:
    def render() -> RenderableType:
        return Text.assemble(name(queue), f" is {state}")

    output.answer({"queue": queue, "state": state}, render)
    if advice:
        output.note(advice)
