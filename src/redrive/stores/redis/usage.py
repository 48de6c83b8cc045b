"""How many bytes waiting, finished and dead messages take: estimates from MEMORY USAGE, a few keys a queue.

Known weakness: what grows with tenants is counted in no state, and neither are the places in lists.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from redrive.core.condition import Capacity
from redrive.core.errors import StoreError, StoreUnavailable
from redrive.stores.redis.client import Client
from redrive.stores.redis.memory import read_memory
from redrive.stores.redis.server import Facts

_WAITING = (":messages", ":progress", ":keys")
_FINISHED = (":finished", ":done", ":finished_order")
_DEAD = (":letters", ":failures", ":dead")
_SAMPLES = 20


async def measure(client: Client, nodes: Sequence[Facts]) -> Capacity:
    """The whole store's use; a server that tells nothing uses 0 bytes of an unknown limit."""
    if not all(facts.info for facts in nodes):
        return Capacity(0, note="the server does not tell its memory (INFO is refused): the watermark is off")
    memories = [read_memory(facts.info) for facts in nodes]
    limited = all(memory.limit_bytes for memory in memories)
    share = client.settings.watermark
    full = share is not None and any(memory.is_above(share) for memory in memories)
    queues = await client.queues()
    waiting: int | None
    finished: int | None
    dead: int | None
    try:
        shares = await asyncio.gather(*(_measure_queue(client, queue) for queue in queues))
        waiting, finished, dead = (sum(column) for column in zip((0, 0, 0), *shares, strict=True))
    except StoreUnavailable:
        raise
    except StoreError:
        waiting = finished = dead = None
    return Capacity(
        sum(memory.used_bytes for memory in memories),
        sum(memory.limit_bytes for memory in memories) if limited else None,
        waiting,
        finished,
        dead,
        accepts=not full,
        note=_note(limited, share, full),
    )


async def _measure_queue(client: Client, queue: str) -> tuple[int, int, int]:
    root = client.queue_key(queue)
    ended = [f":keys:{end.decode()}" for end in await client.command("ZRANGE", f"{root}:key_ends", 0, -1)]
    return (
        await _measure(client, root, _WAITING),
        await _measure(client, root, [*_FINISHED, *ended]),
        await _measure(client, root, _DEAD),
    )


async def _measure(client: Client, root: str, suffixes: Sequence[str]) -> int:
    return sum([await client.memory_usage(f"{root}{suffix}", _SAMPLES) for suffix in suffixes])


def _note(limited: bool, share: float | None, full: bool) -> str:
    if not limited:
        return "maxmemory is 0, no limit: the watermark is off"
    if share is None:
        return "the watermark is off"
    if full:
        return f"above the watermark of {share:.0%}: new messages are refused until some have drained"
    return f"new messages are refused above {share:.0%}"
