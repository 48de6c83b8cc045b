"""What the machine and bare SQLite can do: the rows that our own figures are held against.

Bare is the least that is still a queue: one table with an index by due instant, one statement and one durable
commit to take a batch, one of each to finish it. No tenants, leases, ids, dedupe, events or handlers.
"""

from __future__ import annotations

import json
import os
import re
import time
from pathlib import Path

import apsw

from bench.load import BATCH, BODY, Conditions, Figures

_BATCHES_A_SECOND = 500
_PRAGMAS = ("journal_mode=wal", "synchronous=full", "wal_autocheckpoint=4000", "cache_size=-65536")
_PARTS = re.split(r"^-- name: (\w+)$", Path(__file__).with_name("bare.sql").read_text("utf-8"), flags=re.M)
_SQL = dict(zip(_PARTS[1::2], _PARTS[2::2], strict=True))


def measure_append(conditions: Conditions) -> Figures:
    """Fsyncs, bare appends, and one commit a message, each a second."""
    folder, seconds = conditions.folder, conditions.seconds
    return {
        "fsync": _fsyncs(folder / "fsync", min(1.0, seconds)),
        "bare append": _append(_open(folder / "append.db"), BATCH, seconds),
        "one commit a message": _append(_open(folder / "single.db"), 1, seconds),
    }


def measure_process(conditions: Conditions) -> Figures:
    """Taken and finished a second, of what waits already."""
    count = BATCH * round(_BATCHES_A_SECOND * conditions.seconds)
    return {"bare process": _process(_open(conditions.folder / "process.db"), count)}


def _open(file: Path) -> apsw.Connection:
    connection = apsw.Connection(str(file))
    for pragma in _PRAGMAS:
        connection.execute(f"pragma {pragma}")
    connection.execute(_SQL["schema"])
    return connection


def _fsyncs(file: Path, seconds: float) -> float:
    handle = os.open(file, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)
    count, began_s = 0, time.perf_counter()
    try:
        while (passed_s := time.perf_counter() - began_s) < seconds:
            os.write(handle, bytes(4096))
            os.fdatasync(handle)
            count += 1
    finally:
        os.close(handle)
    return count / passed_s


def _append(connection: apsw.Connection, batch: int, seconds: float) -> float:
    count, began_s = 0, time.perf_counter()
    while (passed_s := time.perf_counter() - began_s) < seconds:
        _add(connection, count, batch)
        count += batch
    connection.close()
    return count / passed_s


def _process(connection: apsw.Connection, count: int) -> float:
    for first in range(0, count, BATCH):
        _add(connection, first, BATCH)
    connection.execute("pragma wal_checkpoint(truncate)")
    finished, began_s = 0, time.perf_counter()
    while finished < count:
        connection.execute("begin immediate")
        rows = connection.execute(_SQL["take"], (count, BATCH)).fetchall()
        connection.execute("commit")
        connection.execute("begin immediate")
        connection.execute(_SQL["finish"], (json.dumps([row[0] for row in rows]),))
        connection.execute("commit")
        finished += len(rows)
    passed_s = time.perf_counter() - began_s
    connection.close()
    return finished / passed_s


def _add(connection: apsw.Connection, first: int, batch: int) -> None:
    connection.execute("begin immediate")
    connection.executemany(_SQL["add"], [(number, number, BODY) for number in range(first, first + batch)])
    connection.execute("commit")
