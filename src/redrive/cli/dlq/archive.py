"""`redrive dlq archive` and `restore`: dead letters into archive files, and back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.text import Text

from redrive.cli.dlq.choice import (
    NO_CHOICE,
    Choice,
    letter_pages,
    note_emptiness,
    selection,
)
from redrive.cli.dlq.run import confirmed
from redrive.cli.ops import conduct
from redrive.cli.output import command
from redrive.cli.problems import CommandError, Exit
from redrive.cli.render.operation import nothing_text, preview_page
from redrive.cli.session import NO_FLAGS, Flags, Session, session
from redrive.office.documents.operations import preview_document
from redrive.office.operations import Kind, Order, Selection
from redrive.office.retention.departure import Departure


async def archive(
    *ids: str,
    choice: Choice = NO_CHOICE,
    folder: Path | None = None,
    dry_run: bool = False,
    yes: bool = False,
    flags: Flags = NO_FLAGS,
) -> int:
    """Move dead letters to an archive file now, as retention would; `dlq restore` brings them back.

    Parameters
    ----------
    ids
        The letters.
    folder
        Where the archive goes; default: retention.folder.
    dry_run
        Only show what would happen.
    yes
        Do not ask.
    """
    async with session(flags) as current:
        place = _folder(current, folder)
        chosen = await selection(current, ids, choice)
        wanted = Order(Kind.DISCARD, chosen, expired=True)
        found = await current.office.operations.preview(wanted)
        preview = preview_document(found)
        document: dict[str, Any] = {
            "verb": "archive",
            "dryRun": dry_run,
            "preview": preview,
            "empty": preview.empty,
            "archived": 0,
            "files": [],
        }
        output = current.output
        if dry_run or not found.count:
            page = preview_page(output, "archive", found)
            output.answer(document, lambda: page if found.count else Text(nothing_text("archive", found)))
            await note_emptiness(current, chosen.filter, found.count)
            return Exit.OK if dry_run or not found.missing else Exit.NOT_FOUND
        if not await confirmed(current, wanted, found, verb="archive", yes=yes):
            return Exit.FAILED
        return await _archive(current, chosen, place, document, found.count)


async def restore(file: Path, /, *, flags: Flags = NO_FLAGS) -> int:
    """Bring the letters of an archive back as they were; of a file that is not whole nothing moves.

    Parameters
    ----------
    file
        The archive.
    """
    path = _existing(file)
    async with session(flags, create=True) as current:
        started = await current.office.operations.start(Order(Kind.RESTORE, file=path))
        return await conduct(current, started.id, {"verb": "restore", "file": path})


def _existing(path: Path) -> str:
    if not path.is_file():
        raise CommandError(f"no file {str(path)!r}: check the name", Exit.NOT_FOUND)
    return str(path.absolute())


def _folder(current: Session, given: Path | None) -> Path:
    kept = current.settings.retention.folder
    if given is None and kept is None:
        raise CommandError("no folder for the archive: give --folder, or set retention.folder", Exit.USAGE)
    return given.absolute() if given is not None else Path(str(kept))


async def _archive(
    current: Session, chosen: Selection, folder: Path, document: dict[str, Any], count: int
) -> int:
    departures: dict[str, Departure] = {}
    seen = 0
    try:
        with current.output.progress("archive", count) as advance:
            async for letters in letter_pages(current, chosen):
                for queue in {one.message.queue for one in letters}:
                    leaving = departures.get(queue)
                    if leaving is None:
                        leaving = Departure(current.store, queue, folder, actor=current.actor)
                        departures[queue] = leaving
                    await leaving.add([one for one in letters if one.message.queue == queue])
                seen += len(letters)
                advance(seen)
            for leaving in departures.values():
                await leaving.end()
    finally:
        for leaving in departures.values():
            leaving.abandon()
    return _archived(current, list(departures.values()), document, seen)


def _archived(current: Session, departures: list[Departure], document: dict[str, Any], seen: int) -> int:
    left = sum(one.left for one in departures)
    files = [str(path) for one in departures for path in one.paths]
    stayed = f", {seen - left:,} stayed (they share their content with other messages)" if left < seen else ""
    lines = "\n".join([f"{left:,} archived{stayed}", *files])
    current.output.answer(document | {"archived": left, "files": files}, lambda: Text(lines))
    for file in files:
        current.output.note(f"bring back: {command('dlq', 'restore', file)}")
    return Exit.OK if left == seen else Exit.PARTIAL
