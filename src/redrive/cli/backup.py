"""`redrive backup`: a copy of a store in a file, while it is in use."""

from __future__ import annotations

from pathlib import Path

from rich.text import Text

from redrive.cli.problems import CommandError, Exit
from redrive.cli.session import NO_FLAGS, Flags, session
from redrive.core.store import Backup


async def backup(file: Path, /, *, flags: Flags = NO_FLAGS) -> None:
    """Copy the SQLite store into a new file, while workers go on.

    Parameters
    ----------
    file
        The new file; one that exists is refused.
    """
    async with session(flags) as current:
        if not isinstance(current.store, Backup):
            raise CommandError(
                "this store is a server and has its own backup: use its tools; redrive backup copies SQLite",
                Exit.USAGE,
            )
        _check_target(file)
        with current.output.progress(f"copying to {file.name}", None) as advance:
            await current.store.backup(file, lambda copied, _: advance(copied))
        size = _size(file)
        document = {"file": str(file), "bytes": size}
        current.output.answer(document, lambda: Text(f"{file}: {size:,} bytes"))


def _check_target(file: Path) -> None:
    if file.exists():
        raise CommandError(f"{file} exists and is not overwritten: name a new file", Exit.USAGE)
    if not file.absolute().parent.is_dir():
        raise CommandError(f"the folder of {file} does not exist: make it first", Exit.USAGE)


def _size(file: Path) -> int:
    return file.stat().st_size
