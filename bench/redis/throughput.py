"""How fast ours accepts and processes on Redis, and what that costs the server and the worker.

Processed counts from the start of the worker to the settlement of the last message: claims, leases, fairness,
deadlines, events and settling, all at their defaults. Costs are seconds of processor, so a neighbour's load
hardly shows in them.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

from bench.load import Conditions, Figures
from bench.redis.server import Meter
from bench.subject import QUEUE, Tally, make_app, preload, working
from bench.submitting import submit_singly

_MESSAGES_A_SECOND = 20_000


def measure(conditions: Conditions) -> Figures:
    """Batches of 1,000 in, and everything out again by one worker."""
    assert conditions.server is not None
    meter, store = Meter.of(conditions.server), conditions.store("throughput")
    count = round(_MESSAGES_A_SECOND * conditions.seconds)
    accepted = _metered(meter, count, lambda: asyncio.run(preload(store, count)))
    processed = _metered(meter, count, lambda: asyncio.run(_process(store, count)))
    return {
        "submit 1000": accepted["rate"],
        "append redis cpu": accepted["server us"],
        "append python cpu": accepted["own us"],
        "process": processed["rate"],
        "process redis cpu": processed["server us"],
        "process python cpu": processed["own us"],
    }


def measure_singly(conditions: Conditions) -> Figures:
    """200 tasks that each submit one at a time."""
    return {"submit singly": asyncio.run(_submit_singly(conditions.store("single"), conditions.seconds))}


def _metered(meter: Meter, count: int, work: Callable[[], None]) -> Figures:
    server_s, own_s, began_s = meter.processor_s(), time.process_time(), time.perf_counter()
    work()
    passed_s = time.perf_counter() - began_s
    return {
        "rate": count / passed_s,
        "own us": 1e6 * (time.process_time() - own_s) / count,
        "server us": 1e6 * (meter.processor_s() - server_s) / count,
    }


async def _process(store: str, count: int) -> None:
    async def handle(payload: dict[str, Any]) -> None:
        return None

    app, tally = make_app(store), Tally(count)
    app.handler(QUEUE)(handle)
    app.telemetry.add(tally)
    async with app, working(app):
        await tally.reached()


async def _submit_singly(store: str, seconds: float) -> float:
    async with make_app(store) as app:
        return await submit_singly(app, seconds)
