"""The machine a run happened on, and the refusal of a folder that is no disk."""

from __future__ import annotations

import os
import platform
from importlib.metadata import version
from pathlib import Path

import apsw

from redrive import __version__

_IN_MEMORY = frozenset({"tmpfs", "ramfs", "devtmpfs"})
_MOUNTS = Path("/proc/self/mounts")


class NotADisk(Exception):
    """The folder lies in memory."""


def filesystem(folder: Path) -> str:
    """The type of the filesystem that a folder lies on; `unknown` where the system does not tell."""
    if not _MOUNTS.exists():
        return "unknown"
    place, found, longest = folder.resolve(), "unknown", -1
    for line in _MOUNTS.read_text("utf-8", "surrogateescape").splitlines():
        _, target, kind, *_ = line.split(" ")
        mount = Path(target.replace("\\040", " "))
        if place.is_relative_to(mount) and len(mount.parts) >= longest:
            found, longest = kind, len(mount.parts)
    return found


def require_disk(folder: Path) -> None:
    """NotADisk when an fsync in this folder would cost nothing."""
    kind = filesystem(folder)
    if kind in _IN_MEMORY:
        raise NotADisk(
            f"{folder} is on {kind}, which is memory: an fsync costs nothing there, so no ratio would mean "
            "anything; give a folder on a disk with --folder"
        )


def describe(folder: Path) -> dict[str, str]:
    """What a reader has to know to judge the figures."""
    return {
        "cores": str(os.cpu_count()),
        "load at the start": f"{os.getloadavg()[0]:.2f}",
        "system": f"{platform.system()} {platform.machine()}",
        "filesystem": filesystem(folder),
        "python": platform.python_version(),
        "sqlite": f"{apsw.sqlite_lib_version()} (apsw {version('apsw')})",
        "msgspec": version("msgspec"),
        "redrive": __version__,
    }
