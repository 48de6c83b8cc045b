"""Files and folders that nobody else may read, whatever the umask is: what is stored here is people's mail.

Only what is new gets these modes. What exists keeps its own, because somebody may share it with a group on
purpose: `redrive doctor` says so instead.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

FILE_MODE = 0o600
FOLDER_MODE = 0o700
_OTHERS = 0o077


def create_file(path: Path) -> BinaryIO:
    """A new file; FileExistsError when there is one already."""
    return os.fdopen(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, FILE_MODE), "wb")


def write_file(path: Path, content: bytes) -> None:
    """A file with this content in the place of one that may be there."""
    path.unlink(missing_ok=True)
    with create_file(path) as file:
        file.write(content)


def make_folder(path: Path) -> None:
    """The folder and those above it that do not exist yet."""
    missing = [one for one in (path, *path.parents) if not one.exists()]
    for folder in reversed(missing):
        with suppress(FileExistsError):
            folder.mkdir(mode=FOLDER_MODE)
    path.mkdir(exist_ok=True)


def mode_beside(path: Path) -> int:
    """The mode of a new file that belongs to another: that one's, so that who may use it may use both."""
    try:
        return stat.S_IMODE(path.stat().st_mode) & 0o666
    except FileNotFoundError:
        return FILE_MODE


def open_beside(path: Path, owner: Path) -> int:
    """Open a file that belongs to another, or make it with that one's mode."""
    flags = os.O_RDWR | os.O_CLOEXEC
    mode = mode_beside(owner)
    try:
        descriptor = os.open(path, flags | os.O_CREAT | os.O_EXCL, mode)
    except FileExistsError:
        return os.open(path, flags | os.O_CREAT, mode)
    os.fchmod(descriptor, mode)
    return descriptor


def wider(paths: Iterable[Path]) -> list[Path]:
    """Those that other users may use in some way; what is not there is left out."""
    found = []
    for path in paths:
        with suppress(FileNotFoundError):
            if path.stat().st_mode & _OTHERS:
                found.append(path)
    return found
