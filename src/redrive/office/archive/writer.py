"""One archive on its way to disk. Calls here block: run them in a thread.

The name is given last: whatever has the ending of an archive was whole when it got it. What a crash leaves
behind is a `.partial` file, which the next writer of the folder removes after a day.
"""

from __future__ import annotations

import gzip
import hashlib
import secrets
import time
from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from redrive.core.letters import DeadLetter
from redrive.machine.private import create_file, make_folder
from redrive.office.archive.files import (
    PARTIAL,
    close_on_disk,
    partial_of,
    saying,
    sync_folder,
)
from redrive.office.archive.lines import (
    FORMAT,
    SHARED_LINES,
    VERSION,
    ArchiveError,
    Header,
    Trailer,
    encode,
    from_letter,
    from_shared,
)
from redrive.office.archive.reader import Archive, check_archive

ENDING = ".jsonl.gz"
_LEVEL = 6
_ABANDONED_S = 86_400.0
_ADVICE = "nothing left the store; make room or give a folder that this process may write to"


class ArchiveWriter:
    """`add` letters, then `finish`; `abandon` leaves no trace."""

    def __init__(self, folder: Path, *, store: str, queue: str, made_at: int) -> None:
        self.path = folder / _name(queue, made_at)
        self.count = 0
        self._partial = partial_of(self.path)
        self._sha256 = hashlib.sha256()
        self._shared: deque[str] = deque(maxlen=SHARED_LINES)
        with saying(f"cannot write an archive to {folder}", _ADVICE):
            make_folder(folder)
            _remove_abandoned(folder)
            self._file = create_file(self._partial)
        self._lines = gzip.GzipFile("", "wb", _LEVEL, self._file, mtime=0)
        self._write(encode(Header(FORMAT, VERSION, store, queue, made_at)))

    def add(self, letters: Iterable[DeadLetter]) -> None:
        """Write letters."""
        for letter in letters:
            self._write_shared(letter)
            self._write(encode(from_letter(letter)))
            self.count += 1

    def finish(self) -> Archive:
        """Bring it to disk, read it back and give it its name; after an error there is no archive."""
        try:
            return self._finish()
        except BaseException:
            self.abandon()
            raise

    def abandon(self) -> None:
        """Remove what was written so far."""
        with suppress(OSError, ValueError):
            self._file.close()
        self._partial.unlink(missing_ok=True)

    def _finish(self) -> Archive:
        expected = Archive(self._partial, self.count, self._sha256.hexdigest())
        self._write(encode(Trailer(expected.count, expected.sha256)))
        with saying(f"cannot write {self.path}", _ADVICE):
            self._lines.close()
            close_on_disk(self._file)
            sync_folder(self.path.parent)
        if check_archive(self._partial) != expected:
            raise ArchiveError(f"{self._partial} does not read as it was written: check the disk")
        with saying(f"cannot write {self.path}", _ADVICE):
            self._partial.rename(self.path)
            sync_folder(self.path.parent)
        return Archive(self.path, expected.count, expected.sha256)

    def _write_shared(self, letter: DeadLetter) -> None:
        """What a letter shares, unless a reader still remembers it."""
        parent, shared = letter.message.parent, letter.shared
        if parent is not None and shared is not None and parent not in self._shared:
            self._write(encode(from_shared(parent, shared)))
            self._shared.append(parent)

    def _write(self, line: bytes) -> None:
        try:
            with saying(f"cannot write {self.path}", _ADVICE):
                self._lines.write(line)
        except BaseException:
            self.abandon()
            raise
        self._sha256.update(line)


def _name(queue: str, made_at: int) -> str:
    """Sorts by queue, then by time; two writers never choose the same."""
    moment = datetime.fromtimestamp(made_at / 1000, UTC)
    return f"letters-{queue.replace(':', '_')}-{moment:%Y%m%dT%H%M%SZ}-{secrets.token_hex(4)}{ENDING}"


def _remove_abandoned(folder: Path) -> None:
    for path in folder.glob(f"letters-*{ENDING}{PARTIAL}"):
        with suppress(FileNotFoundError):
            if time.time() - path.stat().st_mtime > _ABANDONED_S:
                path.unlink()
