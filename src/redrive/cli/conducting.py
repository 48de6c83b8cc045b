"""From an order to its end: preview, question, start, conduct in this process, say what came of it.

More than one letter is never moved without a preview and a confirmation (S24). An operation is durable from
its start on: Ctrl-C or SIGTERM only ends the watching, and the words then say how to go on or to cancel.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from cyclopts import Parameter
from rich.text import Text

from redrive.cli.output import command
from redrive.cli.previews import nothing_text, preview_page
from redrive.cli.problems import CommandError, Exit
from redrive.cli.progress import outcome_code, outcome_text, stayed_code, watching
from redrive.cli.session import Session
from redrive.engine.signals import stop_on_signals
from redrive.office.operations import Kind, OperationState, Order, Preview, Snapshot
from redrive.office.operations.documents import operation_document, preview_document
from redrive.office.queues import live_workers

_MANY = 20


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class Going:
    """How an operation is carried out."""

    rate: str | None = None
    """So many at most, such as 20/s or 600/min."""

    wait: bool = False
    """Also wait until it is known what came of each letter."""

    dry_run: bool = False
    """Only say what would happen."""

    yes: bool = False
    """Do not ask."""


AS_USUAL = Going()


async def order(current: Session, wanted: Order, going: Going, *, body: bytes | None = None) -> int:
    """Show what would happen, ask, do it, and say what came of it; the exit code."""
    output, verb = current.output, wanted.kind.value
    found = await current.operations.preview(wanted)
    document: dict[str, Any] = {
        "verb": verb,
        "dryRun": going.dry_run,
        "preview": preview_document(found),
        "operation": None,
    }
    if going.dry_run:
        output.answer(document, lambda: preview_page(output, verb, found))
        return Exit.OK
    if not found.count:
        output.answer(document, lambda: Text(nothing_text(verb, found)))
        return _nothing_code(wanted, found)
    if not await confirmed(current, wanted, found, yes=going.yes):
        return Exit.FAILED
    started = await current.operations.start(wanted, body=body)
    if wanted.canary or (going.wait and wanted.kind is Kind.REDRIVE):
        await _warn_unserved(current, wanted, found)
    return await conduct(current, started.id, document, outcomes=going.wait)


async def confirmed(
    current: Session, wanted: Order, found: Preview, *, yes: bool, verb: str | None = None
) -> bool:
    """Whether to go on, after the preview was shown; one named letter needs no question."""
    output, verb = current.output, verb or wanted.kind.value
    if found.over_budget:
        raise CommandError(
            f"{found.count:,} letters are more than one operation may take: office.budget is "
            f"{found.budget:,}; narrow the filter, or take some with --limit",
            Exit.FAILED,
        )
    if len(wanted.selection.ids) == 1:
        return True
    if not output.as_json:
        output.notes.print(preview_page(output, verb, found))
        if wanted.kind is Kind.REDRIVE and not wanted.canary and found.count > _MANY:
            output.note("to try some first, and stop by itself when they fail: --canary 5 --rate 20/s")
    return await output.confirm(f"{verb} {found.count:,} dead letters", yes=yes)


async def conduct(
    current: Session, operation_id: str, document: dict[str, Any], *, outcomes: bool = False
) -> int:
    """Carry an operation on, here, until it ends or stands; the exit code."""
    output = current.output
    try:
        with _cancelled_by_signals(), watching(output) as see:
            seen = await current.operations.wait(operation_id, outcomes=outcomes, progress=see)
    except asyncio.CancelledError:
        if output.as_json:
            output.answer(document | {"operation": {"id": operation_id}}, Text)
        output.note(f"operation {operation_id} is kept: a running worker or server carries it on")
        output.note(f"watch it, and carry it on here: redrive ops wait {operation_id}")
        output.note(f"end it where it is: redrive ops cancel {operation_id}")
        raise KeyboardInterrupt from None
    output.answer(document | {"operation": operation_document(seen)}, lambda: Text(outcome_text(seen)))
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
                f"once mended:     redrive ops resume {operation.id}",
                f"or end it:       redrive ops cancel {operation.id}",
            ]
        case OperationState.PAUSED:
            return [f"go on: redrive ops resume {operation.id}, or end it: redrive ops cancel {operation.id}"]
        case _ if seen.outstanding and len(ids) == 1:
            return [f"how it goes: {command('show', ids[0])}"]
        case _ if seen.outstanding:
            return [f"what comes of them: redrive ops wait {operation.id}"]
        case _ if seen.dead:
            return ["what failed again: redrive dlq groups --filter 'redriven:>0'"]
    return []


def _nothing_code(wanted: Order, found: Preview) -> Exit:
    named = bool(wanted.selection.ids)
    return stayed_code(0, found.gone, found.expired if named else 0, found.missing, named=named)


async def _warn_unserved(current: Session, wanted: Order, found: Preview) -> None:
    """An outcome that nobody brings about is waited for without end: say so."""
    queues = {wanted.to_queue or queue for (queue, _, _), _ in found.split}
    served = {queue for worker in await live_workers(current.store) for queue in worker.queues}
    for queue in sorted(queues - served):
        current.output.note(
            f"no live worker serves {queue}: what goes back there waits until one does (redrive worker)"
        )
