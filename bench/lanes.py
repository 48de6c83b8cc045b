"""What a claim costs as the store fills: many tenants, deep queues, a crowd of scheduled retries.

Asks the store itself, at a steady depth: claim 100, settle 100, append 100, again. The median of a step is
what it costs: on a shared machine the mean tells of the neighbours.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from bench.load import BATCH, TENANTS, Conditions, Figures
from bench.subject import QUEUE, make_app, preload, submissions
from redrive import Submission
from redrive.core.failure import Failure, Kind
from redrive.core.message import Delivery, Entry
from redrive.core.ports import PAGE, Claim, Store
from redrive.core.retry import RetryPolicy
from redrive.core.settings import SubmitSettings
from redrive.core.verdict import Complete, RetryAt, Settlement
from redrive.engine.entries import make_entry
from redrive.engine.ids import new_token

DEPTH = 60_000
SHALLOW = 1_000
DEEP = 1_000_000
DEEP_FILE = "deep.db"
RETRIES = 100_000
FEW_TENANTS, MANY_TENANTS = 3, 10_000
_HOUR_MS = 3_600_000
_WARM_UP, _LEAST = 5, 50


@dataclass(slots=True)
class Costs:
    """Seconds of each step: a claim on the wall, a claim on the processor, the whole cycle."""

    claim: list[float] = field(default_factory=list)
    claim_cpu: list[float] = field(default_factory=list)
    cycle: list[float] = field(default_factory=list)

    def figures(self, name: str) -> Figures:
        """Medians in milliseconds."""
        return {
            f"claim {name}": 1000 * statistics.median(self.claim),
            f"claim cpu {name}": 1000 * statistics.median(self.claim_cpu),
            f"cycle {name}": 1000 * statistics.median(self.cycle),
        }


def measure_few_tenants(conditions: Conditions) -> Figures:
    """Three tenants with 60,000 waiting."""
    return _measure_fresh(conditions, "few tenants", DEPTH, FEW_TENANTS)


def measure_many_tenants(conditions: Conditions) -> Figures:
    """10,000 tenants with 60,000 waiting."""
    return _measure_fresh(conditions, "many tenants", DEPTH, MANY_TENANTS)


def measure_shallow(conditions: Conditions) -> Figures:
    """1,000 waiting."""
    return _measure_fresh(conditions, "shallow", SHALLOW, TENANTS)


def measure_retries(conditions: Conditions) -> Figures:
    """1,000 waiting beside 100,000 retries of the same tenants that are due in an hour."""
    file = conditions.folder / "retries.db"
    asyncio.run(_schedule_retries(file))
    asyncio.run(preload(file, SHALLOW))
    return asyncio.run(_run(file, TENANTS, conditions.seconds)).figures("beside retries")


def fill_deep(conditions: Conditions) -> Figures:
    """Let 1,000,000 wait in the file that the deep probes share; appended a second."""
    began_s = time.perf_counter()
    asyncio.run(preload(conditions.shared / DEEP_FILE, DEEP))
    return {"fill": DEEP / (time.perf_counter() - began_s)}


def measure_deep(conditions: Conditions) -> Figures:
    """1,000,000 waiting."""
    return asyncio.run(_run(conditions.shared / DEEP_FILE, TENANTS, conditions.seconds)).figures("deep")


def _measure_fresh(conditions: Conditions, name: str, depth: int, tenants: int) -> Figures:
    file = conditions.folder / "claims.db"
    asyncio.run(preload(file, depth, tenants))
    return asyncio.run(_run(file, tenants, conditions.seconds)).figures(name)


async def _run(file: Path, tenants: int, seconds: float) -> Costs:
    """Cycles for so long, at least 50, after a few that are not counted."""
    costs, fresh = Costs(), submissions(None, tenants)
    async with make_app(file) as app:
        for _ in range(_WARM_UP):
            await _cycle(app.store, fresh, Costs())
        began_s = time.perf_counter()
        while time.perf_counter() - began_s < seconds or len(costs.cycle) < _LEAST:
            await _cycle(app.store, fresh, costs)
    return costs


async def _cycle(store: Store, fresh: Iterator[Submission], costs: Costs) -> None:
    entries = [_entry(submission, store.now()) for submission in islice(fresh, BATCH)]
    began_s, began_cpu_s = time.perf_counter(), time.thread_time()
    deliveries = await _claim(store, BATCH)
    costs.claim_cpu.append(time.thread_time() - began_cpu_s)
    costs.claim.append(time.perf_counter() - began_s)
    assert len(deliveries) == BATCH, "the depth is steady, so a claim is always full"
    await store.settle([Settlement(delivery, Complete()) for delivery in deliveries])
    await store.append([entries])
    costs.cycle.append(time.perf_counter() - began_s)


async def _schedule_retries(file: Path) -> None:
    """Real retries: claimed once, failed, due again in an hour."""
    await preload(file, RETRIES)
    async with make_app(file) as app:
        while deliveries := await _claim(app.store, PAGE):
            await app.store.settle([Settlement(delivery, _retry(app.store.now())) for delivery in deliveries])


async def _claim(store: Store, limit: int) -> tuple[Delivery, ...]:
    claimed = await store.claim(Claim(queue=QUEUE, token=new_token(), limit=limit, lease_s=30.0))
    return claimed.deliveries


def _retry(now: int) -> RetryAt:
    return RetryAt(now + _HOUR_MS, Failure(now, 1, Kind.TEMPORARY, "451 try again later", "451"))


def _entry(submission: Submission, now: int) -> Entry:
    ttl_s = RetryPolicy().ttl_s
    return make_entry(QUEUE, submission, ttl_s=ttl_s, settings=SubmitSettings(), now=now)
