"""How fast ours accepts and processes on Redis, and what that costs the server and the worker.

Processed counts from the start of a worker to the settlement of the last message, after another worker of the
same process has brought in what only workers import: claims, leases, fairness,
deadlines, events and settling, at their defaults but for the handlers at once. Costs are seconds of
processor, so a neighbour's load shows less in them than in the rates.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import Any

from bench.lanes import schedule_retries
from bench.load import Conditions, Figures
from bench.redis.server import Meter
from bench.subject import QUEUE, Tally, make_app, preload, warm_up, working
from bench.submitting import submit_singly
from redrive.machine import loops

_MESSAGES_A_SECOND = 20_000
_LEAST = 40_000
# As many at once as the peers may run.
CONCURRENCY = 100


@dataclass(frozen=True, slots=True)
class Reading:
    """The clock, the server's processor and our own, in seconds."""

    wall_s: float
    server_s: float
    own_s: float

    @classmethod
    def of(cls, meter: Meter) -> Reading:
        """What they say now."""
        return cls(time.perf_counter(), meter.processor_s(), time.process_time())


def measure(conditions: Conditions) -> Figures:
    """Batches of 1,000 in, and everything out again by one worker."""
    assert conditions.server is not None
    meter, store = Meter.of(conditions.server), conditions.store("throughput")
    count = max(_LEAST, round(_MESSAGES_A_SECOND * conditions.seconds))
    asyncio.run(warm_up(store))
    began = Reading.of(meter)
    asyncio.run(preload(store, count))
    accepted = _figures("submit 1000", "append", count, began, Reading.of(meter))
    return accepted | asyncio.run(_process(store, count, meter))


def measure_on_uvloop(conditions: Conditions) -> Figures:
    """Everything out again by one worker on uvloop, as `redrive worker` runs where it is installed."""
    assert conditions.server is not None
    meter, store = Meter.of(conditions.server), conditions.store("throughput")
    count = max(_LEAST, round(_MESSAGES_A_SECOND * conditions.seconds))
    asyncio.run(preload(store, count))
    return {"process on uvloop": loops.run(_process(store, count, meter), uvloop=True)["process"]}


def measure_beside_retries(conditions: Conditions) -> Figures:
    """The same beside 100,000 retries that are due in an hour."""
    assert conditions.server is not None
    meter, store = Meter.of(conditions.server), conditions.store("retries")
    count = max(_LEAST, round(_MESSAGES_A_SECOND * conditions.seconds))
    asyncio.run(schedule_retries(store))
    asyncio.run(preload(store, count))
    return {"process beside retries": asyncio.run(_process(store, count, meter))["process"]}


def measure_singly(conditions: Conditions) -> Figures:
    """200 tasks that each submit one at a time."""
    return {"submit singly": asyncio.run(_submit_singly(conditions.store("single"), conditions.seconds))}


def _figures(rate: str, work: str, count: int, began: Reading, ended: Reading) -> Figures:
    """A rate, and microseconds a message of the server's processor and of ours."""
    return {
        rate: count / (ended.wall_s - began.wall_s),
        f"{work} redis cpu": 1e6 * (ended.server_s - began.server_s) / count,
        f"{work} python cpu": 1e6 * (ended.own_s - began.own_s) / count,
    }


async def _process(store: str, count: int, meter: Meter) -> Figures:
    async def handle(payload: dict[str, Any]) -> None:
        return None

    await warm_up(store)
    app, tally = make_app(store), Tally(count)
    app.handler(QUEUE, concurrency=CONCURRENCY)(handle)
    app.telemetry.add(tally)
    async with app:
        began = Reading.of(meter)
        async with working(app):
            await tally.reached()
            ended = Reading.of(meter)
    return _figures("process", "process", count, began, ended)


async def _submit_singly(store: str, seconds: float) -> float:
    async with make_app(store) as app:
        return await submit_singly(app, seconds)
