"""Whose turn it is to write: a kernel lock that processes take one after the other.

SQLite's own lock lets one busy process starve the others, because waiters poll for it. Here a waiter
holds the gate while it waits for the turn, so whoever just wrote queues behind it. The kernel frees both
when a process dies. A thread that waited hands the turn to the event loop by an `Offer`. Known weakness:
those waiting at the gate itself are not served in order.
"""

from __future__ import annotations

import fcntl
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

from redrive.core.errors import StoreUnavailable
from redrive.machine.forks import watch
from redrive.machine.private import open_beside

PATIENCE_S = 30.0

_SHORT_S = 0.0001
_LONG_S = 0.001
_SHORT_TRIES = 30
_STANDS_S = 0.05
_STANDS_AT_MOST_S = 0.4


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


def held_too_long(path: Path) -> StoreUnavailable:
    """The turn of a database did not come within PATIENCE_S."""
    return StoreUnavailable(
        f"{path} has been held by another Redrive process for {PATIENCE_S:.0f} s: "
        "see whether one of them is stopped, then try again"
    )


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


class Offer:
    """A turn that a thread holds, and that goes to whoever comes first: the loop, or the end of patience.

    A loop that comes in time has it; otherwise the thread gives it up, so a blocked loop delays other
    processes by one such moment and no more. The moment grows with every offer that was missed, so that a
    slow loop gets its turn in the end.
    """

    def __init__(self, give_up: Callable[[], None]) -> None:
        self._give_up = give_up
        self._lock = threading.Lock()
        self._accepted = threading.Event()
        self._over = False

    def stand(self, missed: int) -> None:
        """In the thread: wait until the loop accepts, or give the turn up; it came late `missed` times."""
        self._accepted.wait(min(_STANDS_S * 2 ** min(missed, 10), _STANDS_AT_MOST_S))
        with self._lock:
            # Given up under the lock: a loop that comes too late finds the turn free, not half released.
            if not self._accepted.is_set():
                self._over = True
                self._give_up()

    def accept(self) -> bool:
        """On the loop: whether the turn is ours."""
        with self._lock:
            if self._over:
                return False
            self._accepted.set()
            return True
