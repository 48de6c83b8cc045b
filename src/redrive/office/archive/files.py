"""Files that must not be half there: private, brought to disk, and named only when they are whole."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from redrive.machine.private import create_file, make_folder
from redrive.office.archive.lines import ArchiveError

PARTIAL = ".partial"


def partial_of(path: Path) -> Path:
    """The name that a file has until it is whole."""
    return path.with_name(path.name + PARTIAL)


def close_on_disk(file: BinaryIO) -> None:
    """Close a file after its bytes are on disk."""
    file.flush()
    os.fsync(file.fileno())
    file.close()


def sync_folder(folder: Path) -> None:
    """Bring a folder's names to disk."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def saying(what: str, advice: str) -> Iterator[None]:
    """Turn an error of the system into ArchiveError, with what was tried and what to do."""
    try:
        yield
    except OSError as error:
        raise ArchiveError(f"{what}: {error.strerror or error}; {advice}") from error


def folder_problem(folder: Path | None) -> str:
    """Why no archive can be written to a folder, or nothing when one can."""
    if folder is None:
        return "there is no folder for archives; set retention.folder"
    try:
        with saying(f"cannot write to {folder}", "give a folder that this process may write to"):
            make_folder(folder)
            trial = folder / f"trial-{secrets.token_hex(4)}"
            create_file(trial).close()
            trial.unlink()
    except ArchiveError as error:
        return str(error)
    return ""
