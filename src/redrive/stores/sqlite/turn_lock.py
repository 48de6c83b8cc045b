"""Whose turn it is to write: a kernel lock that processes take one after the other.

SQLite's own lock lets one busy process starve the others, because waiters poll for it. Here a waiter
holds the gate while it waits for the turn, so whoever just wrote queues behind it. The kernel frees both
when a process dies. Known weakness: those waiting at the gate itself are not served in order.
"""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path

from redrive.core.forks import watch
from redrive.core.private import open_beside

_SHORT_S = 0.0001
_LONG_S = 0.001
_SHORT_TRIES = 30


class TurnLock:
    """The two lock files beside a database. One thread at a time uses an object."""

    def __init__(self, path: Path) -> None:
        self._gate = open_beside(path.with_name(path.name + "-gate"), path)
        try:
            self._turn = open_beside(path.with_name(path.name + "-turn"), path)
        except OSError:
            os.close(self._gate)
            raise
        self.closed = False
        watch(self)

    def try_take(self) -> bool:
        """Take the turn if nobody has it or waits for it."""
        if not _try_lock(self._gate):
            return False
        try:
            return _try_lock(self._turn)
        finally:
            fcntl.flock(self._gate, fcntl.LOCK_UN)

    def take(self, patience_s: float) -> bool:
        """Wait for the turn; False when patience ends. Polls, because a blocked flock cannot be given up."""
        ends = time.monotonic() + patience_s
        if not _wait_for(self._gate, ends):
            return False
        try:
            return _wait_for(self._turn, ends)
        finally:
            fcntl.flock(self._gate, fcntl.LOCK_UN)

    def __del__(self) -> None:
        # Of a store that nobody closed: its event loop ended first.
        if not getattr(self, "closed", True):
            self.close()

    def release(self) -> None:
        fcntl.flock(self._turn, fcntl.LOCK_UN)

    def forked(self) -> None:
        """In a child: let go of the files, not of the lock, which is the parent's."""
        self.close()

    def close(self) -> None:
        """Let go of both files; a turn that is held ends with the last process that has them open."""
        if self.closed:
            return
        self.closed = True
        os.close(self._gate)
        os.close(self._turn)


def _try_lock(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _wait_for(file: int, ends: float) -> bool:
    tries = 0
    while not _try_lock(file):
        if time.monotonic() >= ends:
            return False
        time.sleep(_SHORT_S if tries < _SHORT_TRIES else _LONG_S)
        tries += 1
    return True
