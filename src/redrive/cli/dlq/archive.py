"""`redrive dlq archive` and `restore`: dead letters into archive files, and back."""

from __future__ import annotations

from pathlib import Path

from redrive.cli.dlq.choice import NO_CHOICE, Choice, selection
from redrive.cli.dlq.run import Going, order
from redrive.cli.ops import conduct
from redrive.cli.problems import CommandError, Exit
from redrive.cli.session import NO_FLAGS, Flags, Session, session
from redrive.office.operations import OperationKind, Order


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
    """Bring the letters of an archive back as they were; of a file that is not whole nothing moves.

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
