"""From an order to its end: preview, question, start, conduct in this process, say what came of it.

More than one letter is never moved without a preview and a confirmation; what is moved is what was counted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from cyclopts import Parameter
from rich.text import Text

from redrive.cli.dlq.choice import note_emptiness
from redrive.cli.ops import conduct, stayed_code
from redrive.cli.problems import CommandError, Exit
from redrive.cli.render.operation import nothing_text, plan_text, preview_page
from redrive.cli.session import Session
from redrive.office.documents.operations import preview_document
from redrive.office.operations import OperationKind, Order, Preview
from redrive.office.queues import live_workers


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class Going:
    """How an operation is carried out."""

    rate: str | None = None
    """At most this many, such as 600/min, or none; default 20/s for a re-drive of more than 20 letters."""

    wait: bool = False
    """Also wait for the outcome of each letter."""

    dry_run: bool = False
    """Only show what would happen."""

    yes: bool = False
    """Do not ask."""


AS_USUAL = Going()


async def order(current: Session, wanted: Order, going: Going, *, body: bytes | None = None) -> int:
    """Show what would happen, ask, do it, and say what came of it; the exit code."""
    output, verb = current.output, wanted.kind.value
    found = await current.office.operations.preview(wanted)
    preview = preview_document(found)
    document: dict[str, Any] = {
        "verb": verb,
        "dryRun": going.dry_run,
        "preview": preview,
        "empty": preview.empty,
        "operation": None,
    }
    if going.dry_run:
        output.answer(document, lambda: preview_page(output, verb, found))
        await note_emptiness(current, wanted.selection.filter, found.count)
        return Exit.OK
    if not found.count:
        output.answer(document, lambda: Text(nothing_text(verb, found)))
        await note_emptiness(current, wanted.selection.filter, found.count)
        return _nothing_code(wanted, found)
    if not await confirmed(current, wanted, found, going):
        return Exit.FAILED
    counted = wanted.as_previewed(found.as_of, found.count)
    started = await current.office.operations.start(counted, body=body)
    return await conduct(current, started.id, document, outcomes=going.wait)


async def confirmed(current: Session, wanted: Order, found: Preview, going: Going) -> bool:
    """Whether to go on, after the preview was shown; one named letter needs no question."""
    output, verb = current.output, wanted.kind.value
    if found.over_budget:
        raise CommandError(
            f"{found.count:,} letters are more than one operation may take: office.budget is "
            f"{found.budget:,}; narrow the filter, or take some with --limit",
            Exit.FAILED,
        )
    one = len(wanted.selection.ids) == 1
    if not one and not output.as_json:
        output.notes.print(preview_page(output, verb, found))
    if found.order.canary or (going.wait and wanted.kind is OperationKind.REDRIVE):
        await _warn_unserved(current, wanted, found)
    if one:
        return True
    how = f" ({plan_text(found)})" if wanted.kind is OperationKind.REDRIVE else ""
    return await output.confirm(f"{verb} {found.count:,} dead letters{how}", yes=going.yes)


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
