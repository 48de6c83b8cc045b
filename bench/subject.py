"""Ours, as its users run it: the app on one store, defaults throughout, and a worker that runs until a count.

The logging of the standard library stands at its default, warning, so events are made and none is printed.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from itertools import cycle, islice

from bench.load import PAYLOAD, TENANTS
from redrive import Redrive, Submission
from redrive.config import Settings
from redrive.core.ports import APPEND_MESSAGES
from redrive.telemetry.events import Buried, Completed, Event

QUEUE = "bench"
_WARM_UP = "warm-up"


def make_app(store: str) -> Redrive:
    """An app on a store, untouched by the configuration of whoever runs the bench."""
    return Redrive(settings=Settings(store=store))


def submissions(count: int | None, tenants: int = TENANTS, *, dedupe: bool = False) -> Iterator[Submission]:
    """So many messages of 1 KB, or endless ones, the tenants in turn, with a dedupe key each if wanted."""
    names = enumerate(cycle(f"tenant-{number}" for number in range(tenants)))
    return (
        Submission(PAYLOAD, tenant=name, dedupe=f"order-{number}" if dedupe else None)
        for number, name in islice(names, count)
    )


async def preload(store: str, count: int, tenants: int = TENANTS, *, dedupe: bool = False) -> None:
    """Let messages wait in a store, and close it."""
    async with make_app(store) as app:
        waiting = submissions(count, tenants, dedupe=dedupe)
        while batch := list(islice(waiting, APPEND_MESSAGES)):
            await app.submit_many(QUEUE, batch)


class Tally:
    """A sink that counts messages once they are settled in the store, and notes when `wanted` were."""

    def __init__(self, wanted: int) -> None:
        self.count = 0
        self.ended_s = 0.0
        self._wanted = wanted
        self._reached = asyncio.Event()

    def __call__(self, event: Event) -> None:
        self.hear_all([event])

    def hear_all(self, events: Sequence[Event]) -> None:
        """What was settled together, so that measuring costs little."""
        before = self.count
        self.count += sum(type(event) in (Completed, Buried) for event in events)
        if before < self._wanted <= self.count:
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


async def warm_up(store: str) -> None:
    """Have a first worker of this process work: what only a worker imports is here before the clock starts.

    The rates of the peers count without their imports too.
    """
    app, tally = make_app(store), Tally(1)

    async def handle(payload: object) -> None:
        return None

    app.handler(_WARM_UP)(handle)
    app.telemetry.add(tally)
    async with app:
        await app.submit(_WARM_UP, None)
        async with working(app):
            await tally.reached()
