"""Reads of the index, each in a thread with a connection of its own and a time limit.

A connection costs a fraction of a millisecond, and a read that holds none disturbs nobody: the store's log
can be moved, a damaged file replaced. The event loop never waits for SQLite. Nothing here writes.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote

import apsw

from redrive.core.errors import RedriveError, StoreError, StoreUnavailable
from redrive.core.redaction import redact

TIME_LIMIT_S = 30.0
PATIENCE_MS = 5_000
_STEPS = 20_000
_MAPPED_BYTES = 256 * 1024 * 1024
_REDACTED = 1_000

T = TypeVar("T")


class TimeLimit(RedriveError):
    """A question that takes too long."""

    def __init__(self, limit_s: float) -> None:
        super().__init__(
            f"this took longer than {limit_s:g} s and was stopped: narrow it by queue, tenant, code or age"
        )


def read_only(path: Path) -> str:
    """The address of a file as SQLite opens it for reading only."""
    return f"file:{quote(str(path.absolute()))}?mode=ro"


async def read(address: str, work: Callable[[apsw.Connection], T], limit_s: float = TIME_LIMIT_S) -> T:
    """The work's answer; TimeLimit when it takes too long. A caller that is cancelled stops the work."""
    left = threading.Event()
    try:
        return await asyncio.to_thread(_read, address, work, limit_s, left)
    except asyncio.CancelledError:
        left.set()
        raise


def connect(address: str) -> apsw.Connection:
    """A connection that cannot write. It knows `redacted`, for those who see letters with masks."""
    connection = apsw.Connection(address, flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI)
    connection.set_busy_timeout(PATIENCE_MS)
    connection.execute("pragma query_only = on")
    connection.execute(f"pragma mmap_size = {_MAPPED_BYTES}")
    connection.create_scalar_function("redacted", lru_cache(_REDACTED)(_redacted), 1, deterministic=True)
    return connection


def translate(error: apsw.Error) -> StoreError:
    """The driver's errors as ours."""
    if isinstance(error, apsw.BusyError | apsw.LockedError):
        return StoreUnavailable("the index of dead letters is held by another program: try again")
    return StoreError(f"the index of dead letters cannot be read: SQLite says {error}")


def _redacted(text: apsw.SQLiteValue) -> str | None:
    return redact(text) if isinstance(text, str) else None


def _read(address: str, work: Callable[[apsw.Connection], T], limit_s: float, left: threading.Event) -> T:
    ends_s = time.monotonic() + limit_s
    try:
        connection = connect(address)
        try:
            connection.set_progress_handler(lambda: left.is_set() or time.monotonic() > ends_s, _STEPS)
            return work(connection)
        finally:
            connection.close()
    except apsw.InterruptError:
        raise TimeLimit(limit_s) from None
    except apsw.Error as error:
        raise translate(error) from error
