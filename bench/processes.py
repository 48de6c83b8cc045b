"""How fast `redrive worker --processes` works off what waits, with 1, 2 and 4 processes.

The command itself, as its users start it, on a queue that is paused until all processes are up: counted from
the resume to the settlement of the last message. With a handler that does nothing this shows where the store
is the limit; with one that takes 0.2 ms of the processor, what more cores bring.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from bench.load import Conditions, Figures, free_port
from bench.subject import QUEUE, make_app, preload
from redrive import Redrive
from redrive.office.audit import this_account

COUNTS = (1, 2, 4)
_MESSAGES_A_SECOND = {"idle_handler": 15_000, "busy_handler": 3_000}
_LOOK_S = 0.02
_PATIENCE_S = 120.0
_ROOT = Path(__file__).resolve().parent.parent


def measure(conditions: Conditions) -> Figures:
    """Processed a second by each number of processes, on a store of its own each."""
    figures = {}
    for handler, rate in _MESSAGES_A_SECOND.items():
        for count in COUNTS:
            store, messages = conditions.store(f"{handler}{count}"), round(rate * conditions.seconds)
            measured = _measure(store, f"bench.handlers:{handler}", count, messages)
            figures[f"{handler} by {count}"] = asyncio.run(measured)
    return figures


async def _measure(store: str, target: str, processes: int, messages: int) -> float:
    await preload(store, messages)
    async with make_app(store) as app:
        queues = app.office.acting(this_account("python")).queues
        await queues.pause(QUEUE)
        async with _running(store, target, processes):
            began_s = time.perf_counter()
            await queues.resume(QUEUE)
            await _all_done(app)
            return messages / (time.perf_counter() - began_s)


async def _all_done(app: Redrive) -> None:
    async with asyncio.timeout(_PATIENCE_S):
        while True:
            counts = next(one for one in await app.store.queues() if one.queue == QUEUE)
            if counts.pending + counts.processing == 0:
                return
            await asyncio.sleep(_LOOK_S)


@asynccontextmanager
async def _running(store: str, target: str, processes: int) -> AsyncIterator[None]:
    """The command, while inside, once every process is up."""
    port = free_port()
    environment = {name: text for name, text in os.environ.items() if not name.startswith("REDRIVE_")}
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "redrive", "worker", target, "--log-level", "warning"),
        *("--store", store, "--processes", str(processes)),
        cwd=_ROOT,
        env=environment | {"REDRIVE_METRICS": f"127.0.0.1:{port}"},
        stdout=subprocess.DEVNULL,
    )
    try:
        async with asyncio.timeout(_PATIENCE_S):
            while not await _is_ready(port):
                assert process.returncode is None, "the worker ended before it was up"
                await asyncio.sleep(_LOOK_S)
        yield
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


async def _is_ready(port: int) -> bool:
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return False
    writer.write(b"GET /health/ready HTTP/1.1\r\n\r\n")
    answer = await reader.readline()
    writer.close()
    return b" 200 " in answer
