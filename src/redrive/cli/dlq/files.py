"""`redrive dlq export`, `archive` and `restore`: dead letters into a file for other programs, or into an
archive and back.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from redrive.cli.dlq.choice import NO_CHOICE, Choice, note_emptiness, selection
from redrive.cli.dlq.run import Going, order
from redrive.cli.ops import conduct
from redrive.cli.problems import CommandError, Exit
from redrive.cli.session import NO_FLAGS, Flags, Session, session
from redrive.office.export import Format
from redrive.office.operations import OperationKind, Order, Selection


async def export(
    file: Annotated[str, Parameter(allow_leading_hyphen=True)],
    /,
    *ids: str,
    choice: Choice = NO_CHOICE,
    format: Format | None = None,  # noqa: A002 - the flag's name
    reveal: bool = False,
    flags: Flags = NO_FLAGS,
) -> int:
    """Write dead letters to a new file for other programs, or with - to standard output; nothing moves.

    Parameters
    ----------
    file
        The new file, or - for standard output.
    ids
        The letters.
    format
        jsonl or csv; default: by the file's ending.
    reveal
        Payloads without masks; the audit records who did.
    """
    form = format or (Format.CSV if file.lower().endswith(".csv") else Format.JSONL)
    async with session(flags) as current:
        chosen = await selection(current, ids, choice)
        if file == "-":
            return await _to_output(current, chosen, form, reveal=reveal)
        wanted = Order(
            OperationKind.EXPORT,
            chosen,
            expired=True,
            file=_absolute(Path(file)),
            form=form.value,
            reveal=reveal,
        )
        return await order(current, wanted, Going(yes=True))


async def _to_output(current: Session, chosen: Selection, form: Format, *, reveal: bool) -> int:
    if current.output.as_json and form is not Format.JSONL:
        raise CommandError("--json and csv on standard output: leave one of them out", Exit.USAGE)
    written = 0
    async for piece in current.office.letters.export(chosen, form, reveal=reveal):
        sys.stdout.buffer.write(piece.data)
        written += piece.letters
    sys.stdout.buffer.flush()
    current.output.note(f"{written:,} exported")
    if not chosen.ids:
        await note_emptiness(current, chosen.filter, written)
    return Exit.OK


def _absolute(path: Path) -> str:
    """Another process may carry the operation on, from another folder."""
    return str(path.absolute())


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
        wanted = Order(OperationKind.ARCHIVE, chosen, expired=True, file=str(place))
        return await order(current, wanted, Going(dry_run=dry_run, yes=yes))


async def restore(file: Path, /, *, flags: Flags = NO_FLAGS) -> int:
    """Bring the letters of an archive back as they were; of a damaged file nothing is taken.

    Parameters
    ----------
    file
        The archive.
    """
    path = _existing(file)
    async with session(flags, create=True) as current:
        started = await current.office.operations.start(Order(OperationKind.RESTORE, file=path))
        return await conduct(current, started.id, {"verb": "restore", "file": path})


def _existing(path: Path) -> str:
    if not path.is_file():
        raise CommandError(f"no file {str(path)!r}: check the name", Exit.NOT_FOUND)
    return str(path.absolute())


def _folder(current: Session, given: Path | None) -> Path:
    kept = current.settings.retention.folder
    if given is None and kept is None:
        raise CommandError("no folder for the archive: give --folder, or set retention.folder", Exit.USAGE)
    return (given if given is not None else Path(str(kept))).absolute()
