"""`redrive ops`: operations under way and ended; look at one, pause, resume, cancel it, wait for it."""

from __future__ import annotations

from pathlib import Path

from cyclopts import App
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from redrive.cli.conducting import conduct, next_commands, unattended_text
from redrive.cli.output import Output, clean, name
from redrive.cli.problems import CommandError, Exit
from redrive.cli.progress import outcome_text, pace_text
from redrive.cli.session import NO_FLAGS, Flags, Session, session
from redrive.cli.times import age, moment
from redrive.core.ports import PAGE
from redrive.office.operations import Operation, OperationState, Snapshot
from redrive.office.operations.documents import operation_document

ops = App(
    name="ops", help="Watch, pause, resume and cancel operations: re-drives, discards, exports, restores."
)

_STYLES = {
    OperationState.FINISHED: "green",
    OperationState.HALTED: "bold red",
    OperationState.FAILED: "bold red",
    OperationState.PAUSED: "yellow",
    OperationState.CANCELLED: "yellow",
}


@ops.command(name="list")
async def list_operations(*, limit: int = 20, running: bool = False, flags: Flags = NO_FLAGS) -> None:
    """Operations, the newest first.

    Parameters
    ----------
    limit
        How many at most, up to 500; 20 unless told.
    running
        Only those that have not ended.
    """
    if not 1 <= limit <= PAGE:
        raise CommandError(f"--limit is {limit}: 1 to {PAGE}", Exit.USAGE)
    async with session(flags) as current:
        found = await snapshots(current, limit, running=running)
        document = {"operations": [operation_document(seen) for seen in found]}
        now = current.store.now()
        current.output.answer(document, lambda: operation_table(current.output, found, now))
        note_unattended(current.output, found)
        if found:
            current.output.note(f"one of them: redrive ops show {found[0].operation.id}")


@ops.command
async def show(operation_id: str, /, *, flags: Flags = NO_FLAGS) -> None:
    """One operation: what was asked, how far it is, and what came of its letters.

    Parameters
    ----------
    operation_id
        The operation.
    """
    async with session(flags) as current:
        seen = await current.operations.show(operation_id)
        current.output.answer(operation_document(seen), lambda: _page(seen))
        if seen.unattended:
            current.output.note(unattended_text(operation_id))
        elif seen.operation.state.runs:
            current.output.note(f"watch it: redrive ops wait {operation_id}")
        for line in next_commands(seen):
            current.output.note(line)


@ops.command
async def pause(operation_id: str, /, *, flags: Flags = NO_FLAGS) -> None:
    """Move nothing more until it is resumed.

    Parameters
    ----------
    operation_id
        The operation.
    """
    async with session(flags) as current:
        await _answer(current, await current.operations.pause(operation_id))
        current.output.note(f"go on: redrive ops resume {operation_id}")


@ops.command
async def resume(operation_id: str, /, *, flags: Flags = NO_FLAGS) -> None:
    """Go on after a pause or a halt; after a halt with a new canary.

    Parameters
    ----------
    operation_id
        The operation.
    """
    async with session(flags) as current:
        await _answer(current, await current.operations.resume(operation_id))
        current.output.note(
            f"a running worker or server carries it on; here: redrive ops wait {operation_id}"
        )


@ops.command
async def cancel(operation_id: str, /, *, flags: Flags = NO_FLAGS) -> None:
    """End it where it is: what was moved stays moved, the rest stays where it was.

    Parameters
    ----------
    operation_id
        The operation.
    """
    async with session(flags) as current:
        cancelled = await current.operations.cancel(operation_id)
        conductor = current.operations.conductor
        await conductor.advance(operation_id)
        await conductor.release()
        await _answer(current, cancelled)


@ops.command
async def wait(operation_id: str, /, *, flags: Flags = NO_FLAGS) -> int:
    """Carry an operation on and watch it, until what came of each of its letters is known.

    Parameters
    ----------
    operation_id
        The operation.
    """
    async with session(flags) as current:
        await current.operations.show(operation_id)
        return await conduct(current, operation_id, {}, outcomes=True)


async def snapshots(current: Session, limit: int, *, running: bool) -> list[Snapshot]:
    """The newest operations with their numbers."""
    listed = await current.operations.list(limit=limit if not running else PAGE)
    wanted = [one for one in listed if not (running and one.state.ended)]
    return [await current.operations.show(one.id) for one in wanted[:limit]]


def note_unattended(output: Output, found: list[Snapshot]) -> None:
    """Say which of these run and do not go on."""
    for seen in found:
        if seen.unattended:
            output.note(unattended_text(seen.operation.id))


def operation_table(output: Output, found: list[Snapshot], now: int) -> RenderableType:
    """Operations, a line each."""
    if not found:
        return Text("no operations: redrive dlq redrive --filter '…' starts one")
    numbers = ("letters", "failed", "begun")
    headers = ("operation", "what", "state", *numbers, "letters of")
    table = output.table(*headers, numbers=numbers, words=("letters of",))
    for seen in found:
        operation = seen.operation
        table.add_row(
            operation.id,
            operation.order.kind.value,
            Text(operation.state.value, _STYLES.get(operation.state, "cyan")),
            f"{seen.handled:,}/{operation.frozen.total:,}",
            f"{seen.failed:,}" if seen.failed else "",
            age(operation.created_at, now),
            name(_what(operation)),
        )
    return table


def _what(operation: Operation) -> str:
    chosen, order = operation.order.selection, operation.order
    if order.uses_file and order.file is not None:
        return Path(order.file).name
    if chosen.ids:
        return chosen.ids[0] if len(chosen.ids) == 1 else f"{len(chosen.ids):,} named letters"
    return chosen.filter or "all"


def _page(seen: Snapshot) -> RenderableType:
    operation, order = seen.operation, seen.operation.order
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(no_wrap=True, style="dim")
    grid.add_column(overflow="fold")
    grid.add_row("operation", name(operation.id, "bold"))
    grid.add_row("what", name(f"{order.kind} of {_what(operation)}"))
    grid.add_row("by", name(f"{operation.actor} ({operation.origin}), {moment(operation.created_at)}"))
    if order.file is not None:
        grid.add_row("file", name(order.file))
    grid.add_row("how", name(_how(operation)))
    grid.add_row("state", Text(operation.state.value, _STYLES.get(operation.state, "cyan")))
    grid.add_row("progress", Text(f"{seen.handled:,} of {operation.frozen.total:,}  {pace_text(seen)}"))
    grid.add_row("so far", name(outcome_text(seen)))
    if seen.outstanding:
        grid.add_row("", Text(f"{seen.outstanding:,} still out: what comes of them is not known yet"))
    return Group(grid)


def _how(operation: Operation) -> str:
    order = operation.order
    parts = [f"at {order.rate}" if order.rate else "as fast as it goes"]
    if order.canary:
        parts.append(f"a canary of {order.canary}")
    if order.to_queue is not None:
        parts.append(f"to {clean(order.to_queue)}")
    if order.kind.value == "redrive":
        parts.append(f"halts above {order.halt_share:.0%} failures")
    return ", ".join(parts)


async def _answer(current: Session, operation: Operation) -> None:
    seen = await current.operations.show(operation.id)
    current.output.answer(
        operation_document(seen), lambda: Text(f"{operation.id} is {seen.operation.state}: {_far(seen)}")
    )


def _far(seen: Snapshot) -> str:
    return f"{seen.handled:,} of {seen.operation.frozen.total:,} handled"
