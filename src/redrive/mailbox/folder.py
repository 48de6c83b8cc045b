"""Received mails in a folder: one .eml file each, and an index of JSON lines that other processes read.

A line of the index is written after its file, so what the index names was whole; a torn last line is
skipped. One mailbox at a time writes, under a kernel lock. Never calls fsync: this is a simulator, and
what the machine loses with its power is lost. Files that the index does not name are left alone.
"""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import msgspec

from redrive.core.errors import ConfigurationError, RedriveError
from redrive.machine.private import FILE_MODE, make_folder, write_file
from redrive.mailbox.received import Received

_INDEX = "index.jsonl"
_LOCK = "lock"


class _Line(msgspec.Struct, rename="camel", frozen=True):
    """A line of the index: a mail without its content."""

    id: int
    at: int
    sender: str
    recipients: tuple[str, ...]
    message_id: str | None
    subject: str
    tenant: str | None
    duplicate_of: int | None


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(_Line)


class Folder:
    """The folder of an open mailbox."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._index = -1
        self._lines = self._size = 0
        try:
            make_folder(path)
            self._lock = os.open(path / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
        except OSError as error:
            raise ConfigurationError(
                f"the mailbox cannot use the folder {path} ({error.strerror}): choose one that can be written"
            ) from error
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(self._lock)
            raise RedriveError(
                f"another mailbox uses the folder {path}: stop it, or choose another folder"
            ) from error

    def open(self, received: Iterable[Received]) -> None:
        """Begin to write after these, which were read before."""
        self.rewrite(received)

    def close(self) -> None:
        """Let another mailbox have the folder."""
        if self._index >= 0:
            os.close(self._index)
        os.close(self._lock)

    def keep(self, mail: Received) -> None:
        """Write a mail; OSError when it cannot be."""
        write_file(self._path / _name(mail.id), mail.content)
        line = _line(mail)
        if os.write(self._index, line) < len(line):
            os.ftruncate(self._index, self._size)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self._size += len(line)
        self._lines += 1

    def forget(self, mail: Received, left: Iterable[Received], count: int) -> None:
        """Remove a mail; once most of the index's lines are of such, write it anew with those `left`."""
        (self._path / _name(mail.id)).unlink(missing_ok=True)
        if self._lines > 2 * count + 1_000:
            with suppress(OSError):  # an index that cannot be renewed now still names all that is kept
                self.rewrite(left)

    def rewrite(self, received: Iterable[Received]) -> None:
        """The index with exactly these, put in the place of the old one in one step."""
        lines = [_line(mail) for mail in received]
        fresh = self._path / f"{_INDEX}.new"
        write_file(fresh, b"".join(lines))
        index = os.open(fresh, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
        fresh.replace(self._path / _INDEX)
        if self._index >= 0:
            os.close(self._index)
        self._index = index
        self._lines, self._size = len(lines), sum(map(len, lines))


def latest(path: Path, limit: int | None = None) -> list[Received]:
    """The newest mails of a folder, oldest first; while a mailbox writes there, or after it ended."""
    lines = _read_index(path)
    chosen = lines if limit is None else lines[max(0, len(lines) - limit) :]
    return [mail for line in chosen if (mail := _load(path, line)) is not None]


def find(path: Path, mail_id: int) -> Received | None:
    """One mail of a folder."""
    for line in _read_index(path):
        if line.id == mail_id:
            return _load(path, line)
    return None


def _read_index(path: Path) -> list[_Line]:
    try:
        raw = (path / _INDEX).read_bytes()
    except FileNotFoundError:
        return []
    lines: list[_Line] = []
    for line in raw.splitlines():
        with suppress(msgspec.DecodeError):
            lines.append(_decoder.decode(line))
    return lines


def _load(path: Path, line: _Line) -> Received | None:
    """None for a mail that has gone since the index was read."""
    try:
        content = (path / _name(line.id)).read_bytes()
    except FileNotFoundError:
        return None
    return Received(
        line.id,
        line.at,
        line.sender,
        line.recipients,
        line.message_id,
        line.subject,
        line.tenant,
        line.duplicate_of,
        content,
    )


def _line(mail: Received) -> bytes:
    line = _Line(
        mail.id,
        mail.at,
        mail.sender,
        mail.recipients,
        mail.message_id,
        mail.subject,
        mail.tenant,
        mail.duplicate_of,
    )
    return _encoder.encode(line) + b"\n"


def _name(mail_id: int) -> str:
    return f"{mail_id:08d}.eml"
