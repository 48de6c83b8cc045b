"""How large things are: the import, a worker's memory, a message and a dead letter on disk.

Bytes on disk are the growth of the closed file, free pages included, divided by the messages.
"""

from __future__ import annotations

import asyncio
import logging
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from bench.lanes import DEEP_FILE
from bench.load import Conditions, Figures, file_store
from bench.subject import QUEUE, Tally, make_app, preload, working
from redrive import Permanent, RetryPolicy, Temporary

MESSAGES = 20_000
_IMPORTS = 7
_WORKED = 20_000
_STATEMENT = "from redrive import Redrive"
_TIMED_IMPORT = f"import time; began = time.perf_counter(); {_STATEMENT}; print(time.perf_counter() - began)"


def measure_import(conditions: Conditions) -> Figures:
    """Milliseconds of the import that a program makes, in a fresh interpreter, the best of 7."""
    return {"import": 1000 * min(_import_s() for _ in range(_IMPORTS))}


def measure_help(conditions: Conditions) -> Figures:
    """Seconds of `redrive --help`, from the start of the process to its end, the best of 7."""
    return {"help": min(_help_s() for _ in range(_IMPORTS))}


def measure_memory(conditions: Conditions) -> Figures:
    """Peak resident megabytes of a worker that works on a deep queue."""
    asyncio.run(_work(file_store(conditions.shared / DEEP_FILE), _WORKED))
    status = Path("/proc/self/status").read_text("ascii")
    found = re.search(r"^VmHWM:\s+(\d+) kB$", status, re.M)
    assert found is not None, "Linux names the peak VmHWM"
    return {"worker memory": int(found[1]) / 1000}


def measure_disk(conditions: Conditions) -> Figures:
    """Bytes a pending message, and a dead letter with one and with five failures."""
    folder = conditions.folder
    asyncio.run(preload(file_store(folder / "empty.db"), 0))
    empty = _size(folder / "empty.db")
    figures = {}
    for name, attempts in (("pending", 0), ("dead at once", 1), ("dead after 5", 5)):
        file = folder / f"disk{attempts}.db"
        asyncio.run(preload(file_store(file), MESSAGES))
        if attempts:
            asyncio.run(_kill(file_store(file), attempts))
        figures[f"bytes {name}"] = (_size(file) - empty) / MESSAGES
    return figures


def _import_s() -> float:
    command = [sys.executable, "-c", _TIMED_IMPORT]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def _help_s() -> float:
    began_s = time.perf_counter()
    subprocess.run([sys.executable, "-m", "redrive", "--help"], capture_output=True, check=True)
    return time.perf_counter() - began_s


async def _work(store: str, count: int) -> None:
    async def handle(payload: dict[str, Any]) -> None:
        return None

    app, tally = make_app(store), Tally(count)
    app.handler(QUEUE)(handle)
    app.telemetry.add(tally)
    async with app, working(app):
        await tally.reached()


async def _kill(store: str, attempts: int) -> None:
    """Make dead letters of all that waits, with so many failures each."""

    async def handle(payload: dict[str, Any]) -> None:
        if attempts == 1:
            raise Permanent("550 5.1.1 no such user here", code="550")
        raise Temporary("451 4.3.0 try again later", code="451")

    logging.getLogger("redrive").setLevel(logging.CRITICAL)
    app, tally = make_app(store), Tally(MESSAGES)
    app.handler(QUEUE, retry=RetryPolicy(attempts=attempts, base_s=0.001, cap_s=0.001))(handle)
    app.telemetry.add(tally)
    async with app, working(app):
        await tally.reached()


def _size(file: Path) -> int:
    return sum(part.stat().st_size for part in (file, file.with_name(f"{file.name}-wal")) if part.exists())
