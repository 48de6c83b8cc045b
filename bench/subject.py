"""Ours, as its users run it: the app on one file, defaults throughout, and a worker that runs until a count.

The logging of the standard library stands at its default, warning, so events are made and none is printed.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from itertools import cycle, islice
from pathlib import Path

from bench.load import PAYLOAD, TENANTS
from redrive import Redrive, Submission
from redrive.config import Settings
from redrive.core.ports import APPEND_MESSAGES
from redrive.telemetry.events import Buried, Completed, Event

QUEUE = "bench"


def make_app(file: Path) -> Redrive:
    """An app on a file, untouched by the configuration of whoever runs the bench."""
    return Redrive(settings=Settings(store=f"sqlite:///{file}"))


def submissions(count: int | None, tenants: int = TENANTS) -> Iterator[Submission]:
    """So many messages of 1 KB, or endless ones, the tenants in turn."""
    names = cycle(f"tenant-{number}" for number in range(tenants))
    return (Submission(PAYLOAD, tenant=name) for name in islice(names, count))


async def preload(file: Path, count: int, tenants: int = TENANTS) -> None:
    """Let messages wait in a file, and close it."""
    async with make_app(file) as app:
        waiting = submissions(count, tenants)
        while batch := list(islice(waiting, APPEND_MESSAGES)):
            await app.submit_many(QUEUE, batch)


class Tally:
    """A sink that counts messages once they are settled on disk, and notes when `wanted` were."""

    def __init__(self, wanted: int) -> None:
        self.count = 0
        self.ended_s = 0.0
        self._wanted = wanted
        self._reached = asyncio.Event()

    def __call__(self, event: Event) -> None:
        if isinstance(event, Completed | Buried):
            self.count += 1
            if self.count == self._wanted:
                self.ended_s = time.perf_counter()
                self._reached.set()

    async def reached(self, patience_s: float = 300.0) -> None:
        """Wait for the last one; TimeoutError when work stands still for too long."""
        async with asyncio.timeout(patience_s):
            await self._reached.wait()


@asynccontextmanager
async def working(app: Redrive) -> AsyncIterator[None]:
    """A worker in this process, while the block runs."""
    worker = asyncio.create_task(app.run(signals=False))
    try:
        yield
    finally:
        worker.cancel()
        with suppress(asyncio.CancelledError):
            await worker
