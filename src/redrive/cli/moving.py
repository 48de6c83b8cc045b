"""Moving dead letters: which ones, the preview, the confirmation, the move, and its exit code.

More than one letter is never moved without a preview and a confirmation (S24).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from rich.text import Text

from redrive.cli.letters import Preview, tally_document, tally_text
from redrive.cli.problems import CommandError, Exit
from redrive.cli.session import Session
from redrive.office.letters import Progress, Selection, Tally

Act = Callable[[Session, Selection, Progress], Awaitable[Tally]]


async def selection(
    current: Session, ids: tuple[str, ...], queue: str | None, everything: bool, limit: int | None
) -> Selection:
    """The letters that the arguments name; exactly one way of naming them."""
    if (bool(ids), queue is not None, everything).count(True) != 1:
        raise CommandError("say which letters: ids, or --queue QUEUE, or --all; one of them", Exit.USAGE)
    if limit is not None and (limit < 1 or ids):
        raise CommandError("--limit is at least 1, and goes with --queue or --all", Exit.USAGE)
    only = None if queue is None else await current.known_queue(queue)
    return Selection(ids, only, limit)


async def move(
    current: Session,
    verb: str,
    chosen: Selection,
    found: Preview,
    act: Act,
    dry_run: bool,
    yes: bool,
) -> int:
    """Show what would happen, ask, do it, and say what came of it; the exit code."""
    output = current.output
    document: dict[str, Any] = {"verb": verb, "dryRun": dry_run, "preview": found.document()}
    if dry_run:
        output.answer(document, lambda: found.page(output, verb))
        return Exit.OK
    if found.tally.moved and len(chosen.ids) != 1:
        if not output.as_json:
            output.notes.print(found.page(output, verb))
        if not await output.confirm(f"{verb} {found.tally.moved:,} dead letters", yes=yes):
            return Exit.FAILED
    with output.progress(verb, found.tally.moved) as progress:
        tally = await act(current, chosen, progress)
    output.answer(document | tally_document(tally), lambda: Text(tally_text(verb, tally)))
    return _exit_code(chosen, tally)


def _exit_code(chosen: Selection, tally: Tally) -> Exit:
    """Stale letters of a queue were announced and are no failure; a named letter that stayed is one."""
    stayed = tally.skipped + tally.missing + (tally.stale if chosen.ids else 0)
    if not stayed:
        return Exit.OK
    if tally.moved or not chosen.ids:
        return Exit.PARTIAL
    return Exit.NOT_FOUND if tally.missing == stayed else Exit.FAILED
