"""How fast messages are accepted: in batches, and by many tasks that each submit one at a time."""

from __future__ import annotations

import asyncio
import time

from bench.load import BATCH, PAYLOAD, TENANTS, Conditions, Figures
from bench.subject import QUEUE, make_app, submissions
from redrive import Redrive
from redrive.core.ports import APPEND_MESSAGES

TASKS = 200


def measure(conditions: Conditions) -> Figures:
    """Accepted a second, each way on a file of its own."""
    return asyncio.run(_measure(conditions))


async def _measure(conditions: Conditions) -> Figures:
    figures = {}
    for batch in (BATCH, APPEND_MESSAGES):
        async with make_app(conditions.store(f"batch{batch}")) as app:
            figures[f"submit {batch}"] = await _submit_batches(app, batch, conditions.seconds)
    async with make_app(conditions.store("single")) as app:
        figures["submit singly"] = await submit_singly(app, conditions.seconds)
    return figures


async def _submit_batches(app: Redrive, batch: int, seconds: float) -> float:
    count, began_s = 0, time.perf_counter()
    while (passed_s := time.perf_counter() - began_s) < seconds:
        await app.submit_many(QUEUE, submissions(batch))
        count += batch
    return count / passed_s


async def submit_singly(app: Redrive, seconds: float) -> float:
    """Accepted a second from 200 tasks, each waiting for its answer before the next."""
    began_s = time.perf_counter()

    async def submit(tenant: str) -> int:
        count = 0
        while time.perf_counter() - began_s < seconds:
            await app.submit(QUEUE, PAYLOAD, tenant=tenant)
            count += 1
        return count

    counts = await asyncio.gather(*(submit(f"tenant-{number % TENANTS}") for number in range(TASKS)))
    return sum(counts) / (time.perf_counter() - began_s)
