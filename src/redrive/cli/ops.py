"""`redrive ops`: operations under way and ended; look at one, pause, resume, cancel it, wait for it.

An operation is durable from its start on: Ctrl-C or SIGTERM only ends the watching, and the words then say
how to go on or to cancel.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from cyclopts import App
from rich.text import Text

from redrive.cli.output import Output, clean, command
from redrive.cli.problems import CommandError, Exit
from redrive.cli.render.operation import operation_page, operation_table, outcome_text, watching
from redrive.cli.session import NO_FLAGS, Flags, Session, session
from redrive.core.ports import PAGE
from redrive.engine.process import stop_on_signals
from redrive.office.operations import Operation, OperationKind, OperationState, Snapshot

ops = App(name="ops")
_STOOD = (OperationState.HALTED, OperationState.PAUSED, OperationState.CANCELLED)


@ops.command(name="list")
async def list_operations(*, limit: int = 20, running: bool = False, flags: Flags = NO_FLAGS) -> None:
    """Operations, the newest first.

    Parameters
    ----------
    limit
        How many at most, up to 500; default 20.
    running
        Only those that have not ended.
    """
    if not 1 <= limit <= PAGE:
        raise CommandError(f"--limit is {limit}: 1 to {PAGE}", Exit.USAGE)
    async with session(flags) as current:
        answer = await current.office.operations.list(limit=limit, running=running)
        found, now = answer.found, current.store.now()
        current.output.answer(answer.document, lambda: operation_table(current.output, found, now))
        note_unattended(current.output, found)
        if found:
            current.output.note(f"one of them: redrive ops show {found[0].operation.id}")


@ops.command
async def show(operation_id: str, /, *, flags: Flags = NO_FLAGS) -> None:
    """One operation: what was asked, how far it is, and the outcome of its letters.

    Parameters
    ----------
    operation_id
        The operation.
    """
    async with session(flags) as current:
        seen = await current.office.operations.show(operation_id)
        current.output.answer(current.office.operations.document(seen), lambda: operation_page(seen))
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
        await _answer(current, await current.office.operations.pause(operation_id))
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
        await _answer(current, await current.office.operations.resume(operation_id))
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
        await _answer(current, await current.office.operations.cancel(operation_id))


@ops.command
async def wait(operation_id: str, /, *, flags: Flags = NO_FLAGS) -> int:
    """Carry an operation on and watch it until the outcome of each letter is known.

    Parameters
    ----------
    operation_id
        The operation.
    """
    async with session(flags) as current:
        await current.office.operations.show(operation_id)
        return await conduct(current, operation_id, {}, outcomes=True)


def note_unattended(output: Output, found: Sequence[Snapshot]) -> None:
    """Say which of these run and do not go on."""
    for seen in found:
        if seen.unattended:
            output.note(unattended_text(seen.operation.id))


async def conduct(
    current: Session, operation_id: str, document: dict[str, Any], *, outcomes: bool = False
) -> int:
    """Carry an operation on, here, until it ends or stands; the exit code."""
    output = current.output
    try:
        with _cancelled_by_signals(), watching(output) as see:
            seen = await current.office.operations.wait(operation_id, outcomes=outcomes, progress=see)
    except asyncio.CancelledError:
        if output.as_json:
            output.answer(document | {"operation": {"id": operation_id}}, Text)
        output.note(f"operation {operation_id} is kept: a running worker or server carries it on")
        output.note(f"watch it, and carry it on here: redrive ops wait {operation_id}")
        output.note(f"end it where it is: redrive ops cancel {operation_id}")
        raise KeyboardInterrupt from None
    if seen.operation.order.kind is OperationKind.ARCHIVE:
        document |= {"archived": seen.moved, "files": list(seen.operation.files)}
    lines = "\n".join((outcome_text(seen), *map(clean, seen.operation.files)))
    output.answer(document | {"operation": current.office.operations.document(seen)}, lambda: Text(lines))
    for line in next_commands(seen):
        output.note(line)
    return outcome_code(seen)


@contextmanager
def _cancelled_by_signals() -> Iterator[None]:
    """SIGTERM, which systemd and `timeout` send, ends a command as Ctrl-C does: leases are given back."""
    task = asyncio.current_task()

    def stop() -> None:
        if task is not None:
            task.cancel()

    with stop_on_signals(stop):
        yield


def unattended_text(operation_id: str) -> str:
    """Why an operation that runs does not go on, and what to do."""
    return f"nobody carries {operation_id} on: start a worker, or redrive ops wait {operation_id}"


def next_commands(seen: Snapshot) -> list[str]:
    """What somebody may want to do next, a command each."""
    operation = seen.operation
    ids = operation.order.selection.ids
    match operation.state:
        case OperationState.HALTED:
            return [
                "what failed:     redrive dlq groups --filter 'redriven:>0'",
                f"once fixed:      redrive ops resume {operation.id}",
                f"or end it:       redrive ops cancel {operation.id}",
            ]
        case OperationState.PAUSED:
            return [f"go on: redrive ops resume {operation.id}, or end it: redrive ops cancel {operation.id}"]
        case _ if seen.outstanding and len(ids) == 1:
            return [f"watch it: {command('show', ids[0])}"]
        case _ if seen.outstanding:
            return [f"their outcome: redrive ops wait {operation.id}"]
        case _ if seen.dead:
            return ["what failed again: redrive dlq groups --filter 'redriven:>0'"]
    return [f"bring back: {command('dlq', 'restore', file)}" for file in operation.files]


def outcome_code(seen: Snapshot) -> Exit:
    """Stale letters of a filter were announced and are no failure; a named letter that stayed is one."""
    operation, frozen = seen.operation, seen.operation.frozen
    if operation.state is OperationState.FAILED:
        return Exit.FAILED
    if operation.state in _STOOD or seen.dead:
        return Exit.PARTIAL
    named = bool(operation.order.selection.ids)
    return stayed_code(
        seen.moved, seen.skipped + frozen.gone, frozen.expired if named else 0, frozen.missing, named=named
    )


def stayed_code(moved: int, skipped: int, expired: int, missing: int, *, named: bool) -> Exit:
    """The exit code for letters that were meant and stayed."""
    stayed = skipped + expired + missing
    if not stayed:
        return Exit.OK
    if moved or not named:
        return Exit.PARTIAL
    return Exit.NOT_FOUND if missing == stayed else Exit.FAILED


async def _answer(current: Session, operation: Operation) -> None:
    seen = await current.office.operations.show(operation.id)
    current.output.answer(
        current.office.operations.document(seen),
        lambda: Text(f"{operation.id} is {seen.operation.state}: {_far(seen)}"),
    )


def _far(seen: Snapshot) -> str:
    return f"{seen.handled:,} of {seen.operation.frozen.total:,} handled"
