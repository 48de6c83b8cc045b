"""Notices that accepted messages were taken away: a log that was deleted, a file that was replaced.

About once a second a transaction raises a number in the file; once that is committed, the same number is
written into the lock file beside it. A file that is opened and stands behind its mark has lost what it had.
A mark is never ahead of what is on disk, so neither a killed process nor a power cut looks like a loss.

A running process sees that the log's name no longer leads to the log it has open: it moves what that holds
into the file, and refuses to write. Known weakness: what the last second wrote is not under the mark, and a
file that was overwritten in place is noticed only by those who open it afterwards.
"""

from __future__ import annotations

import logging
import os
import time
from dataclasses import dataclass
from pathlib import Path

import apsw

from redrive.core.errors import StoreError
from redrive.stores.sqlite.connection import DIALECT
from redrive.stores.statements import load_sql

SQL = load_sql(DIALECT, "witness")

_LOOK_S = 1.0
_LENGTH = 200

_log = logging.getLogger("redrive.stores.sqlite")


class Witness:
    """Used in the writer's turn, by whoever has it."""

    def __init__(self, connection: apsw.Connection, path: Path) -> None:
        self._connection, self._path = connection, path
        self._file = _inode(self._path)
        self._log_file: int | None = None
        self._next_s = 0.0
        self._pending: _Mark | None = None
        self._gone = ""

    def look(self) -> None:
        """Before a transaction: StoreError when the file or its log is not the one that is open here."""
        self._pending = None
        if not self._gone and time.monotonic() >= self._next_s:
            self._gone = self._missing()
        if self._gone:
            raise StoreError(self._gone)

    def advance(self) -> None:
        """In a transaction: raise the number, now and then."""
        now_s = time.monotonic()
        if now_s >= self._next_s:
            self._next_s = now_s + _LOOK_S
            identity, number = self._connection.execute(SQL["advance"]).get
            self._pending = _Mark(identity, self._file, number)

    def committed(self) -> None:
        """After its commit, still in turn: leave the mark."""
        if self._pending is not None:
            _write(self._path, self._pending)
            self._pending = None
            self._log_file = self._log_file or _inode(_log_of(self._path))

    def _missing(self) -> str:
        if _inode(self._path) != self._file:
            return (
                f"{self._path} was deleted or replaced while it was in use: this process has the old one "
                "open and writes no more into it; stop every process on it, and put the right file in place"
            )
        if self._log_file is None or _inode(_log_of(self._path)) == self._log_file:
            return ""
        try:
            self._connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
            saved = "what it held was moved into the file"
        except apsw.Error as error:
            saved = f"what it held could not be moved into the file ({error})"
        return (
            f"the log of {self._path} was deleted or replaced while it was in use; {saved}: "
            "restart every process on it, and leave the files beside a database alone"
        )


def find_loss(connection: apsw.Connection, path: Path, now: int) -> None:
    """On opening, in turn: keep and say that the file stands behind its mark."""
    mark, (identity, number) = _read(path), connection.execute(SQL["read"]).get
    if mark is None or (mark.identity, mark.inode) != (identity, _inode(path)) or mark.number <= number:
        return
    with connection:
        connection.execute(SQL["add_loss"], (now, mark.number))
        connection.execute(SQL["catch_up"], (mark.number,))
    _log.error(
        "%s has lost messages that were accepted: it stands behind what was last committed to it. Its log "
        "(%s-wal) was deleted, or an older copy took its place: bring the log back, or restore a backup",
        path,
        path.name,
    )


def losses(connection: apsw.Connection) -> tuple[int | None, int]:
    """When a loss was last found, and how many were."""
    found_at, count = connection.execute(SQL["last_loss"]).get
    return found_at, count


@dataclass(frozen=True, slots=True)
class _Mark:
    """How far a file had come: its own name, the inode it had, its number."""

    identity: str
    inode: int
    number: int


def _read(path: Path) -> _Mark | None:
    """The mark beside a file; None when there is none, or half of one."""
    try:
        with _mark_of(path).open("rb") as file:
            words = file.read(_LENGTH).decode("ascii", "replace").split()
        identity, inode, number, end = words
        return _Mark(identity, int(inode), int(number)) if end == "." else None
    except (OSError, ValueError):
        return None


def _write(path: Path, mark: _Mark) -> None:
    """Not synced: a mark that is lost or behind says nothing wrong."""
    text = f"{mark.identity} {mark.inode:020d} {mark.number:020d} .\n".encode("ascii")
    try:
        file = os.open(_mark_of(path), os.O_WRONLY | os.O_CLOEXEC)
    except OSError:
        return
    try:
        os.pwrite(file, text, 0)
    except OSError as error:
        _log.warning("%s: its mark could not be written: %s", path, error)
    finally:
        os.close(file)


def _mark_of(path: Path) -> Path:
    return path.with_name(path.name + "-turn")


def _log_of(path: Path) -> Path:
    path = path.resolve()
    return path.with_name(path.name + "-wal")


def _inode(path: Path) -> int:
    """0 for a file that is not there."""
    try:
        return path.stat().st_ino
    except OSError:
        return 0
