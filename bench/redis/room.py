"""How much memory of Redis a message takes, and how many fit.

The fill is real: a server with `maxmemory` is filled until it refuses. With a smaller limit than 512 MB the
count is scaled up, which flatters nobody: an empty server's own megabyte then weighs more.
"""

from __future__ import annotations

import asyncio
from itertools import islice

from redis import Redis

from bench.letters import bury_all, bury_waiting
from bench.load import TENANTS, Conditions, Figures
from bench.redis.server import Meter
from bench.subject import QUEUE, make_app, preload, submissions
from redrive.core.errors import StoreError
from redrive.core.ports import APPEND_MESSAGES

MESSAGES = 50_000
CAPACITY_MB = 512
# What a run of few seconds fills, to be scaled up.
_SMALL_MB = 64
_SHORT_S = 2.0


def measure_bytes(conditions: Conditions) -> Figures:
    """Bytes a pending message, with a dedupe key and 20 tenants; and a dead letter with one failure."""
    assert conditions.server is not None
    meter, store = Meter.of(conditions.server), conditions.store("bytes")
    asyncio.run(preload(store, APPEND_MESSAGES, dedupe=True))
    asyncio.run(bury_all(store))
    empty = meter.memory()
    asyncio.run(preload(conditions.store("bytes-pending"), MESSAGES, dedupe=True))
    pending = meter.memory()
    asyncio.run(bury_all(conditions.store("bytes-pending")))
    return {
        "bytes pending": (pending - empty) / MESSAGES,
        "bytes dead": (meter.memory() - empty) / MESSAGES,
    }


def measure_capacity(conditions: Conditions) -> Figures:
    """How many wait in 512 MB before an append is refused, and how many dead letters fit there."""
    assert conditions.server is not None
    limit_mb = CAPACITY_MB if conditions.seconds > _SHORT_S else _SMALL_MB
    scale = CAPACITY_MB / limit_mb
    with Redis.from_url(conditions.server) as client:
        client.config_set("maxmemory", f"{limit_mb}mb")
        pending = asyncio.run(_fill(conditions.store("pending"), bury=False))
        client.flushall()
        dead = asyncio.run(_fill(conditions.store("dead"), bury=True))
    return {"capacity pending": pending * scale, "capacity dead": dead * scale, "capacity limit": limit_mb}


async def _fill(store: str, *, bury: bool) -> int:
    """Append until the server refuses; with `bury`, what was appended becomes dead letters on the way."""
    held = 0
    async with make_app(store) as app:
        waiting = submissions(None, TENANTS, dedupe=True)
        while batch := list(islice(waiting, APPEND_MESSAGES)):
            try:
                await app.submit_many(QUEUE, batch)
            except StoreError:
                return held
            held += len(batch)
            if bury:
                await bury_waiting(app.store)
    return held
