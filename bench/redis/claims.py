"""What a claim costs on Redis as it fills: 10,000 tenants against 3, 1,000,000 waiting against 1,000.

The two sides are prefixes on one server and take turns. `claim` is the wall as a worker sees it, `claim cpu`
the time that the server spent in scripts for it.
"""

from __future__ import annotations

import asyncio
import time

from bench.lanes import DEEP, DEPTH, FEW_TENANTS, MANY_TENANTS, SHALLOW, Side, compare
from bench.load import TENANTS, Conditions, Figures
from bench.redis.server import Meter
from bench.subject import preload


def measure_tenants(conditions: Conditions) -> Figures:
    """Three tenants and 10,000, both with 60,000 waiting."""
    few = _side("few tenants", conditions, FEW_TENANTS)
    many = _side("many tenants", conditions, MANY_TENANTS)
    for side in (few, many):
        asyncio.run(preload(side.store, DEPTH, side.tenants))
    return asyncio.run(compare(few, many, conditions.seconds))


def measure_depth(conditions: Conditions) -> Figures:
    """1,000 and 1,000,000 waiting; also what 1,000,000 take of memory and of time to fill."""
    assert conditions.server is not None
    meter, shallow, deep = (
        Meter.of(conditions.server),
        _side("shallow", conditions, TENANTS),
        _side("deep", conditions, TENANTS),
    )
    empty, began_s = meter.memory(), time.perf_counter()
    asyncio.run(preload(deep.store, DEEP))
    filled = {
        "fill": DEEP / (time.perf_counter() - began_s),
        "memory of deep": (meter.memory() - empty) / 1e9,
    }
    asyncio.run(preload(shallow.store, SHALLOW))
    return filled | asyncio.run(compare(shallow, deep, conditions.seconds))


def _side(name: str, conditions: Conditions, tenants: int) -> Side:
    assert conditions.server is not None
    return Side(name, conditions, tenants, clock=Meter.of(conditions.server).scripts_s)
