"""Opening a file: what can be wrong with the path is said before SQLite is asked.

Holds the turn while it creates or migrates, so two processes that start at once migrate once. On a disk
without a byte left it opens by the reserve, so that an operator can free room and a worker can drain.
`Workings` is what an open store works with, put together and taken apart in order.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import apsw

from redrive.core.errors import StoreError, StoreUnavailable
from redrive.machine.forks import watch
from redrive.stores.sqlite.checkpoint import Checkpointer
from redrive.stores.sqlite.clock import Instant
from redrive.stores.sqlite.connection import descriptors_gone, disk_full, open_reader, open_writer, prepare
from redrive.stores.sqlite.forks import Section, check_usable
from redrive.stores.sqlite.reserve import Reserve
from redrive.stores.sqlite.turn_lock import PATIENCE_S, TurnLock, held_too_long
from redrive.stores.sqlite.wait import Waiting
from redrive.stores.sqlite.witness import find_loss
from redrive.stores.sqlite.writer import Writer


@dataclass(frozen=True, slots=True)
class Opened:
    """The connections to one file, and the lock that orders its writers."""

    lock: TurnLock
    writer: apsw.Connection
    reader: apsw.Connection

    def close(self) -> None:
        """Let go. In turn, because the last to close moves the whole log into the file."""
        taken = self.lock.take(PATIENCE_S)
        with Section():
            self.reader.close()
            self.writer.close()
        if taken:
            self.lock.release()
        self.lock.close()


def open_file(path: Path) -> Opened:
    """Create or migrate the file, and connect to it."""
    check_path(path)
    check_usable(path)
    try:
        lock = TurnLock(path)
    except OSError as error:
        if (problem := descriptors_gone()) is not None:
            raise StoreUnavailable(f"{path} cannot be opened: {problem}") from error
        raise StoreError(
            f"{path}: a file beside it cannot be made ({error.strerror}): check the folder"
        ) from error
    if not lock.take(PATIENCE_S):
        lock.close()
        raise held_too_long(path)
    try:
        with Section():
            try:
                return _connect(path, lock)
            except (apsw.FullError, apsw.IOError):
                if not disk_full(path) or not Reserve(path).give_back():
                    raise
                return _connect(path, lock)
    except BaseException:
        lock.close()
        raise
    finally:
        if not lock.closed:
            lock.release()


def _connect(path: Path, lock: TurnLock) -> Opened:
    prepare(path)
    writer = open_writer(path)
    find_loss(writer, path, time.time_ns() // 1_000_000)
    return Opened(lock, writer, open_reader(path))


def check_path(path: Path) -> None:
    """StoreError when the path cannot be a database of ours."""
    folder = path.parent
    if path.is_dir():
        raise StoreError(f"{path} is a folder: name a file in it, such as {path / 'redrive.db'}")
    if not folder.is_dir():
        raise StoreError(f"{path}: the folder {folder} does not exist: create it, or choose another path")
    if not os.access(folder, os.W_OK | os.X_OK) or _read_only(folder):
        raise StoreError(
            f"{path}: this user cannot write to the folder {folder.resolve()}, where SQLite keeps its log: "
            "change the folder's mode or owner, or choose another path"
        )
    if path.exists() and not os.access(path, os.R_OK | os.W_OK):
        raise StoreError(f"{path} cannot be read and written by this user: change its owner or its mode")


def _read_only(folder: Path) -> bool:
    return bool(os.statvfs(folder).f_flag & os.ST_RDONLY)


class Workings:
    """The writer, the reader, those who wait, and the checkpoint thread of one open file."""

    def __init__(self, opened: Opened, path: Path, clock: Callable[[], Instant]) -> None:
        self._opened = opened
        self.reader = opened.reader
        self.reading = Section(nested=True)
        self.waiting = Waiting(opened.reader, self.reading, lambda: clock().now)
        self.writer = Writer(opened.writer, opened.lock, path, clock, self.waiting.committed)
        self._checkpointer = Checkpointer(path)
        self._checkpointer.watch(opened.writer)
        self.inherited = False
        watch(self)

    @classmethod
    async def of(cls, path: Path, clock: Callable[[], Instant]) -> Workings:
        """Open the file; in a thread, because another process may be migrating it."""
        return cls(await asyncio.to_thread(open_file, path), path, clock)

    def forked(self) -> None:
        """In a child: this is the parent's, not to be used and not to be closed."""
        self.inherited = True

    def abandon(self) -> None:
        """Let go of everything from outside the event loop, which is closed."""
        self.writer.abandon()
        self._checkpointer.stop()
        self._opened.close()

    async def close(self) -> None:
        """Finish what was asked for, then let go of everything."""
        await self.writer.close()
        self.waiting.close()
        await asyncio.to_thread(self._checkpointer.stop)
        await asyncio.to_thread(self._opened.close)
