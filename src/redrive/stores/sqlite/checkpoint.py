"""Checkpoints: moving committed pages from the write-ahead log into the file, in a thread of their own.

Passive ones run beside the writers; they cannot start the log anew while somebody writes, so when it has
grown long the thread takes its turn and does. Started by the first commit that leaves a log worth the
trouble; a short command never starts it. Known weakness: a reader that stays open keeps the log growing.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from pathlib import Path

import apsw

from redrive.stores.sqlite.connection import open_writer
from redrive.stores.sqlite.forks import Section
from redrive.stores.sqlite.turn_lock import TurnLock

_log = logging.getLogger("redrive.stores.sqlite")

_WORTH_PAGES = 4_000
_LONG_PAGES = 16_384
_REST_S = 0.25
_PATIENCE_S = 5.0


class Checkpointer:
    """The checkpoint thread of one store."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._wanted = threading.Event()
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

    def watch(self, connection: apsw.Connection) -> None:
        """Hear of every commit of this connection."""
        connection.set_wal_hook(self._committed)

    def stop(self) -> None:
        self._stopped.set()
        self._wanted.set()
        if self._thread is not None:
            self._thread.join()

    def _committed(self, _connection: apsw.Connection, _database: str, pages: int) -> int:
        if pages >= _WORTH_PAGES and not self._wanted.is_set():
            self._wanted.set()
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="redrive-checkpoint", daemon=True)
                self._thread.start()
        return apsw.SQLITE_OK

    def _run(self) -> None:
        connection, lock, section = open_writer(self._path), TurnLock(self._path), Section()
        try:
            while not self._stopped.wait(_REST_S):
                self._wanted.wait()
                self._wanted.clear()
                _attempt(lambda: checkpoint(connection, lock, section))
        finally:
            connection.close()
            lock.close()


def checkpoint(connection: apsw.Connection, lock: TurnLock, section: Section) -> None:
    """Copy what can be copied; when the log is long, take the turn and start it anew.

    The log's file keeps its length: writing over it syncs twice as fast as making it longer. The section is
    left while waiting for the turn: whoever has that may be waiting for a fork, which waits for the section.
    """
    with section:
        pages, _ = connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
    if pages < _LONG_PAGES or not lock.take(_PATIENCE_S):
        return
    try:
        with section:
            connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_RESTART)
    finally:
        lock.release()


def _attempt(function: Callable[[], None]) -> None:
    try:
        function()
    except apsw.BusyError:
        # Another process checkpoints, or a reader is in the way: the next one will do it.
        return
    except apsw.Error as error:
        _log.warning("checkpoint failed, the next one will try again: %s", error)
