"""What a forked child may not keep: lock files, connections, and SQLite's own memory of file locks.

A kernel lock on a lock file belongs to the open file, so a child that keeps it open holds it for its dead
parent: the child closes those files at once. A connection does not survive a fork: it is marked, and never
closed in the child, not even at its end. SQLite remembers per process and file which locks it holds, and a
child inherits that memory without the locks: so the child takes them again before it opens its own
connection, or another process could believe itself alone and remove the log under it. That memory is only
simple while no call is under way, so a fork waits for the calls of other threads (`Section`); a child whose
parent could not wait that long refuses to open the file.

`apsw.fork_checker` is not used: it has to shut SQLite down before anything else in the process uses it, which
a library cannot promise, and it taxes every mutex. Known weakness: reads of the office's index are not waited
for.
"""

from __future__ import annotations

import concurrent.futures.thread  # noqa: F401 - see the end of this file
import ctypes
import fcntl
import logging  # noqa: F401 - see the end of this file
import os
import threading
import time
from contextlib import suppress
from pathlib import Path
from weakref import WeakSet, WeakValueDictionary

import apsw

from redrive.core.errors import StoreError

_PATIENCE_S = 5.0
_LOCK_TRIES = 200
_LOCK_REST_S = 0.005

# Where SQLite puts its locks: the shared range of the database, the dead man's switch of the log's index.
_SHARED = (0x4000_0002, 510)
_SWITCH = (128, 1)


class Section:
    """Held while SQLite is called; a fork waits for it.

    It may be entered in one thread and left in another; a `nested` one may be entered again by its thread.
    """

    def __init__(self, *, nested: bool = False) -> None:
        self._lock = threading.RLock() if nested else threading.Lock()
        self._thread, self._depth = 0, 0
        with _registry:
            _sections.add(self)

    def enter(self) -> None:
        thread = threading.get_ident()
        # A lock is not fair: without this, a busy thread would keep a fork waiting for ever.
        if _forking and not (self._depth and self._thread == thread):
            _forked.wait(_PATIENCE_S)
        self._lock.acquire()
        self._thread = thread
        self._depth += 1

    def leave(self) -> None:
        self._depth -= 1
        self._lock.release()

    def hold(self, patience_s: float) -> bool:
        """For a fork: keep everybody out."""
        return self._lock.acquire(timeout=max(0.0, patience_s))

    def give_back(self) -> None:
        self._lock.release()

    def __enter__(self) -> None:
        self.enter()

    def __exit__(self, *_: object) -> None:
        self.leave()


_registry = threading.Lock()
_sections: WeakSet[Section] = WeakSet()
_connections: WeakValueDictionary[int, apsw.Connection] = WeakValueDictionary()
_held: list[Section] = []
_clean = True
_forking = False
_forked = threading.Event()
_refused: set[str] = set()


def watch_connection(connection: apsw.Connection) -> None:
    """Keep a child from ever closing this connection."""
    with _registry:
        _connections[id(connection)] = connection


def check_usable(path: Path) -> None:
    """StoreError in a child that was forked at a moment at which the file could not be left to it."""
    if os.path.realpath(path) in _refused:
        raise StoreError(
            f"{path} was in use for long when this process was forked, and cannot be opened safely here: "
            'start such processes with the method "spawn" or "forkserver"'
        )


def _wait_for_calls() -> None:
    global _clean, _forking
    _forked.clear()
    _forking = True
    ends = time.monotonic() + _PATIENCE_S
    _clean = True
    with _registry:
        sections = list(_sections)
    for section in sections:
        if section.hold(ends - time.monotonic()):
            _held.append(section)
        else:
            _clean = False


def _let_calls_go_on() -> None:
    global _forking
    while _held:
        _held.pop().give_back()
    _forking = False
    _forked.set()


def _put_away() -> None:
    """In the child."""
    global _registry, _forking, _forked
    _registry, _forking, _forked = threading.Lock(), False, threading.Event()
    paths: set[str] = set()
    for connection in list(_connections.values()):
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(connection))
        with suppress(apsw.Error):
            paths.add(connection.filename)
    for path in paths:
        if not _clean or not _take_again(path):
            _refused.add(os.path.realpath(path))
    _connections.clear()
    _sections.clear()
    _held.clear()


def _take_again(path: str) -> bool:
    """Take the locks that SQLite believes this process has; they last until it ends.

    Their files stay open: closing one would end every lock that this process has on it.
    """
    index = f"{path}-shm"
    return _lock_shared(path, _SHARED) and (not Path(index).exists() or _lock_shared(index, _SWITCH))


def _lock_shared(path: str, place: tuple[int, int]) -> bool:
    try:
        file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False
    start, length = place
    for _ in range(_LOCK_TRIES):
        try:
            fcntl.lockf(file, fcntl.LOCK_SH | fcntl.LOCK_NB, length, start)
            return True
        except OSError:
            time.sleep(_LOCK_REST_S)
    return False


# Threads and logging hold a lock of their own over a fork, which a call under way may need to end. Whoever
# registers last is called first: they are imported above, so we wait before they take their locks.
os.register_at_fork(before=_wait_for_calls, after_in_parent=_let_calls_go_on, after_in_child=_put_away)
