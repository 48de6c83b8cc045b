"""How soon a worker has a message, and what it costs to wait for one.

Latency counts from before the submit to the start of the handler, so it holds the durable write too. Both
sides read the machine's monotonic clock, which processes share.
"""

from __future__ import annotations

import asyncio
import random
import sys
import time
from collections.abc import Callable
from typing import Any

from bench.load import PAYLOAD, TENANTS, Conditions, Figures, percentile
from bench.subject import QUEUE, make_app, working
from redrive import Redrive

MESSAGES = 200
LIGHT_RATE = 200
_SETTLE_IN_S = 1.0
_PATIENCE_S = 60.0


class Arrivals:
    """The latencies that a handler has seen, in seconds, until `wanted` are there."""

    def __init__(self, wanted: int) -> None:
        self.latencies: list[float] = []
        self._wanted = wanted
        self._all = asyncio.Event()

    async def handle(self, payload: dict[str, Any]) -> None:
        """The handler: notes how old the message is."""
        self.latencies.append(time.monotonic() - payload["sent"])
        if len(self.latencies) == self._wanted:
            self._all.set()

    async def complete(self) -> None:
        """Wait for the last one."""
        async with asyncio.timeout(_PATIENCE_S):
            await self._all.wait()

    def figures(self, name: str, *shares: int) -> Figures:
        """Percentiles in milliseconds."""
        return {f"{name} p{share}": 1000 * percentile(self.latencies, share / 100) for share in shares}


def measure_same_process(conditions: Conditions) -> Figures:
    """Pick-up by an idle worker of what its own process submits."""
    return asyncio.run(_measure_same_process(conditions.store("wake")))


def measure_other_process(conditions: Conditions) -> Figures:
    """Pick-up by an idle worker of what another process submits."""
    arrivals = asyncio.run(_receive(conditions.store("wake"), MESSAGES, idle_gap_s))
    return arrivals.figures("wake from another process", 50, 99)


def measure_light_load(conditions: Conditions) -> Figures:
    """Latency at 200 a second from another process."""
    count = round(LIGHT_RATE * conditions.seconds)
    arrivals = asyncio.run(_receive(conditions.store("light"), count, even_gap_s))
    return arrivals.figures("light load", 50, 95, 99)


def measure_idle(conditions: Conditions) -> Figures:
    """The share of one core, in percent, that a worker with nothing to do takes."""
    return {"idle cpu": asyncio.run(_measure_idle(conditions.store("idle")))}


def idle_gap_s() -> float:
    """Long enough for the worker to be idle again, and never in step with its polling."""
    return random.uniform(0.02, 0.06)


def even_gap_s() -> float:
    """The light load."""
    return 1 / LIGHT_RATE


_GAPS: dict[str, Callable[[], float]] = {gap.__name__: gap for gap in (idle_gap_s, even_gap_s)}


async def pace(app: Redrive, count: int, gap_s: Callable[[], float]) -> None:
    """Submit one message after each gap, by a schedule that a slow submit does not delay."""
    due_s = time.monotonic()
    for number in range(count):
        due_s += gap_s()
        await asyncio.sleep(max(0.0, due_s - time.monotonic()))
        payload = PAYLOAD | {"sent": time.monotonic()}
        await app.submit(QUEUE, payload, tenant=f"tenant-{number % TENANTS}")


async def _measure_same_process(store: str) -> Figures:
    arrivals, app = Arrivals(MESSAGES), make_app(store)
    app.handler(QUEUE)(arrivals.handle)
    async with app, working(app):
        await asyncio.sleep(_SETTLE_IN_S)
        await pace(app, MESSAGES, idle_gap_s)
        await arrivals.complete()
    return arrivals.figures("wake in process", 50, 99)


async def _receive(store: str, count: int, gap_s: Callable[[], float]) -> Arrivals:
    arrivals, app = Arrivals(count), make_app(store)
    app.handler(QUEUE)(arrivals.handle)
    async with app, working(app):
        await asyncio.sleep(_SETTLE_IN_S)
        command = [sys.executable, "-m", "bench.waking", store, str(count), gap_s.__name__]
        submitter = await asyncio.create_subprocess_exec(*command)
        await arrivals.complete()
        await submitter.wait()
    return arrivals


async def _measure_idle(store: str, seconds: float = 5.0) -> float:
    app = make_app(store)
    app.handler(QUEUE)(Arrivals(1).handle)
    async with app, working(app):
        await asyncio.sleep(_SETTLE_IN_S)
        began_s, began_cpu_s = time.monotonic(), time.process_time()
        await asyncio.sleep(seconds)
        return 100 * (time.process_time() - began_cpu_s) / (time.monotonic() - began_s)


async def _submit(store: str, count: int, gap: str) -> None:
    async with make_app(store) as app:
        await pace(app, count, _GAPS[gap])


if __name__ == "__main__":
    asyncio.run(_submit(sys.argv[1], int(sys.argv[2]), sys.argv[3]))
