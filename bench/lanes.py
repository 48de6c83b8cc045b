"""What a claim costs as the store fills: many tenants, deep queues, a crowd of scheduled retries.

Asks the store itself, at a steady depth: claim 100, settle 100, append 100, again. The two stores that are
compared take turns in one process, and the median of a step is what it costs: on a shared machine anything
else would tell of the neighbours.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import islice

from bench.load import BATCH, TENANTS, Conditions, Figures, file_store
from bench.subject import QUEUE, make_app, preload, submissions
from redrive import Submission
from redrive.core.failure import Failure, Kind
from redrive.core.message import Delivery, Entry
from redrive.core.ports import PAGE, Claim
from redrive.core.retry import RetryPolicy
from redrive.core.settings import SubmitSettings
from redrive.core.store import Store
from redrive.core.verdict import Complete, RetryAt, Settlement
from redrive.engine.entries import make_entry
from redrive.engine.ids import new_token

DEPTH = 60_000
SHALLOW = 1_000
DEEP = 1_000_000
DEEP_FILE = "deep.db"
RETRIES = 100_000
FEW_TENANTS, MANY_TENANTS = 3, 10_000
Clock = Callable[[], float]

_HOUR_MS = 3_600_000
_WARM_UP, _LEAST = 5, 50


@dataclass(slots=True)
class Costs:
    """Seconds of each step: a claim on the wall, a claim on the processor, the whole cycle."""

    claim: list[float] = field(default_factory=list)
    claim_cpu: list[float] = field(default_factory=list)
    cycle: list[float] = field(default_factory=list)


class Side:
    """One of the two stores that are compared; `clock` reads the seconds of the processor that claims."""

    def __init__(
        self,
        name: str,
        conditions: Conditions,
        tenants: int = TENANTS,
        *,
        store: str | None = None,
        clock: Clock = time.thread_time,
    ) -> None:
        self.name, self.tenants = name, tenants
        self.store = store or conditions.store(name.replace(" ", "-"))
        self.clock = clock
        self.fresh = submissions(None, tenants)
        self.costs = Costs()

    def figures(self) -> Figures:
        """Medians in milliseconds."""
        return {
            f"claim {self.name}": 1000 * statistics.median(self.costs.claim),
            f"claim cpu {self.name}": 1000 * statistics.median(self.costs.claim_cpu),
            f"cycle {self.name}": 1000 * statistics.median(self.costs.cycle),
        }


def measure_tenants(conditions: Conditions) -> Figures:
    """Three tenants and 10,000, both with 60,000 waiting."""
    few, many = Side("few tenants", conditions, FEW_TENANTS), Side("many tenants", conditions, MANY_TENANTS)
    for side in (few, many):
        asyncio.run(preload(side.store, DEPTH, side.tenants))
    return asyncio.run(compare(few, many, conditions.seconds))


def measure_retries(conditions: Conditions) -> Figures:
    """1,000 waiting, alone and beside 100,000 retries of the same tenants that are due in an hour."""
    alone, beside = Side("without retries", conditions), Side("beside retries", conditions)
    asyncio.run(schedule_retries(beside.store))
    for side in (alone, beside):
        asyncio.run(preload(side.store, SHALLOW))
    return asyncio.run(compare(alone, beside, conditions.seconds))


def fill_deep(conditions: Conditions) -> Figures:
    """Let 1,000,000 wait in the file that the deep probes share; appended a second."""
    began_s = time.perf_counter()
    asyncio.run(preload(file_store(conditions.shared / DEEP_FILE), DEEP))
    return {"fill": DEEP / (time.perf_counter() - began_s)}


def measure_depth(conditions: Conditions) -> Figures:
    """1,000 and 1,000,000 waiting."""
    filled = file_store(conditions.shared / DEEP_FILE)
    shallow, deep = Side("shallow", conditions), Side("deep", conditions, store=filled)
    asyncio.run(preload(shallow.store, SHALLOW))
    return asyncio.run(compare(shallow, deep, conditions.seconds))


async def compare(one: Side, other: Side, seconds: float) -> Figures:
    """Cycles of both in turn, for twice so long and at least 50 of each, after a few that are not counted."""
    async with make_app(one.store) as first, make_app(other.store) as second:
        pairs = ((first.store, one), (second.store, other))
        for _ in range(_WARM_UP):
            for store, side in pairs:
                await _cycle(store, side, Costs())
        began_s = time.perf_counter()
        while time.perf_counter() - began_s < 2 * seconds or len(other.costs.cycle) < _LEAST:
            for store, side in pairs:
                await _cycle(store, side, side.costs)
    return one.figures() | other.figures()


async def _cycle(store: Store, side: Side, costs: Costs) -> None:
    entries = [_entry(submission, store.now()) for submission in islice(side.fresh, BATCH)]
    began_cpu_s, began_s = side.clock(), time.perf_counter()
    deliveries = await claim(store, BATCH)
    costs.claim.append(time.perf_counter() - began_s)
    costs.claim_cpu.append(side.clock() - began_cpu_s)
    assert len(deliveries) == BATCH, "the depth is steady, so a claim is always full"
    await store.settle([Settlement(delivery, Complete()) for delivery in deliveries])
    await store.append([entries])
    costs.cycle.append(time.perf_counter() - began_s)


async def schedule_retries(store: str, count: int = RETRIES, tenants: int = TENANTS) -> None:
    """Real retries: claimed once, failed, due again in an hour."""
    await preload(store, count, tenants)
    async with make_app(store) as app:
        while deliveries := await claim(app.store, PAGE):
            await app.store.settle([Settlement(delivery, _retry(app.store.now())) for delivery in deliveries])


async def claim(store: Store, limit: int) -> tuple[Delivery, ...]:
    """One claim, whatever it brings."""
    claimed = await store.claim(Claim(queue=QUEUE, token=new_token(), limit=limit, lease_s=30.0))
    return claimed.deliveries


def _retry(now: int) -> RetryAt:
    return RetryAt(now + _HOUR_MS, Failure(now, 1, Kind.TEMPORARY, "451 try again later", "451"))


def _entry(submission: Submission, now: int) -> Entry:
    ttl_s = RetryPolicy().ttl_s
    return make_entry(QUEUE, submission, ttl_s=ttl_s, settings=SubmitSettings(), now=now)
