"""Where a disposable index lies: a file that only its owner can read, in a folder that nobody else can write.

What nobody used for as long as dead letters are kept goes, so that no payload outlives its letter by much.
"""

from __future__ import annotations

import hashlib
import os
import time
from pathlib import Path

from redrive.machine.private import FILE_MODE, make_folder

UNUSED_S = 7 * 86_400.0


def make_file(folder: Path, name: str) -> Path | None:
    """An empty or known file by a name, or None where there can be none that is safe."""
    path = folder / f"{hashlib.sha256(name.encode()).hexdigest()[:16]}.db"
    try:
        make_folder(folder)
        status = folder.stat()
        if status.st_uid != os.getuid() or status.st_mode & 0o022:
            return None
        use_file(path)
        path.chmod(FILE_MODE)
        _remove_unused(folder)
    except OSError:
        return None
    return path


def use_file(path: Path) -> None:
    """Say that the file is used, and make it anew where it is gone: never one that others can read."""
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, FILE_MODE))
    os.utime(path)


def _remove_unused(folder: Path) -> None:
    before = time.time() - UNUSED_S
    for path in folder.glob("*.db"):
        if path.stat().st_mtime < before:
            for part in (path, path.with_name(f"{path.name}-wal"), path.with_name(f"{path.name}-shm")):
                part.unlink(missing_ok=True)
