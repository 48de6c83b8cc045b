"""The peers' own environment: made once in the user's cache folder, never in ours."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from pathlib import Path

_PACKAGES = ("huey", "persist-queue", "litequeue")


class PeersMissing(Exception):
    """The peers cannot be installed here."""


def prepare() -> Path:
    """The interpreter that has the peers; PeersMissing says why there is none."""
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    folder = Path.home() / ".cache" / "redrive-bench" / f"peers-python{version}"
    python = folder / "bin" / "python"
    try:
        if not python.exists() or len(_installed(python)) < len(_PACKAGES):
            _call(sys.executable, "-m", "venv", "--clear", str(folder))
            _call(str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *_PACKAGES)
    except (OSError, subprocess.CalledProcessError) as error:
        said = error.stderr if isinstance(error, subprocess.CalledProcessError) else str(error)
        why = (said.strip().splitlines() or ["no reason given"])[-1]
        raise PeersMissing(f"cannot install {', '.join(_PACKAGES)} into {folder}: {why}") from error
    return python


def versions(python: Path) -> str:
    """The peers, and the SQLite of the interpreter that they share with us."""
    return ", ".join([*_installed(python), f"SQLite {sqlite3.sqlite_version}"])


def _installed(python: Path) -> list[str]:
    pins = (line.partition("==") for line in _call(str(python), "-m", "pip", "freeze").splitlines())
    return [f"{name} {version}" for name, _, version in pins if name in _PACKAGES]


def _call(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout
