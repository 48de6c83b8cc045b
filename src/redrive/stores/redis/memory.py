"""How full a server is, and the watermark above which nothing new is accepted, so that work can drain.

The server's own limit refuses too, but only when the last byte is used. Memory is read about once a second,
and sooner when the watermark could be reached before; what several processes add in that time may pass
it a little. A server without a limit, or one that does not tell, has no watermark.

How many bytes waiting, finished and dead messages take are estimates from MEMORY USAGE, a few keys a queue.
What messages of several states have in one key is divided by how many of each there are.
Known weakness: what grows with tenants is counted in no state, and neither are the places in lists.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from redis.exceptions import NoPermissionError

from redrive.core.condition import Capacity
from redrive.core.errors import StoreError, StoreFull, StoreUnavailable
from redrive.stores.redis.nodes import Node

if TYPE_CHECKING:
    from redrive.stores.redis.client import Client

_SELDOM_S = 1.0
_OFTEN_S = 0.02
_FASTEST_BYTES_S = 200_000_000
_WAITING = (":messages",)
_FINISHED = (":finished", ":done", ":finished_order", ":discarded")
_DEAD = (":letters", ":dead")
_SHARED = (":progress", ":failures", ":keys")
_SAMPLES = 20


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes in use and the limit; 0 is no limit."""

    used_bytes: int
    limit_bytes: int

    def is_above(self, share: float) -> bool:
        return self.limit_bytes > 0 and self.used_bytes > share * self.limit_bytes

    def holds_s(self, share: float) -> float:
        """For how long it says enough: less than the fastest submitters need to reach the watermark."""
        if not self.limit_bytes or self.is_above(share):
            return _SELDOM_S
        room = share * self.limit_bytes - self.used_bytes
        return min(_SELDOM_S, max(_OFTEN_S, room / _FASTEST_BYTES_S))


@dataclass(slots=True)
class _Reading:
    memory: Memory | None
    until_s: float


def read_memory(info: Mapping[str, Any]) -> Memory:
    """What INFO says; buffers that the server does not count against its limit are left out."""
    uncounted = int(info.get("mem_not_counted_for_evict", 0))
    return Memory(max(0, int(info["used_memory"]) - uncounted), int(info["maxmemory"]))


class Watermark:
    """Refuses what a server has no room for."""

    def __init__(self, share: float | None) -> None:
        self.share = share
        self._readings: dict[str, _Reading] = {}

    async def check(self, node: Node) -> None:
        """StoreFull when the node is above the watermark."""
        if self.share is None:
            return
        reading, now_s = self._readings.get(node.address), time.monotonic()
        if reading is None or now_s >= reading.until_s:
            known = None if reading is None else reading.memory
            reading = self._readings[node.address] = _Reading(known, now_s + _SELDOM_S)
            reading.memory = await _ask(node)
            reading.until_s = now_s + (reading.memory.holds_s(self.share) if reading.memory else _SELDOM_S)
        memory = reading.memory
        if memory is not None and memory.is_above(self.share):
            raise StoreFull(
                f"{node.address} uses {memory.used_bytes:,} of {memory.limit_bytes:,} bytes, more than the "
                f"watermark of {self.share:.0%}: nothing new is accepted until some of it has drained; wait, "
                "remove dead letters, or raise maxmemory"
            )


async def _ask(node: Node) -> Memory | None:
    try:
        return read_memory(await node.ask("INFO", "memory"))
    except NoPermissionError:
        return None


async def measure(client: Client, infos: Sequence[Mapping[str, Any]]) -> Capacity:
    """The whole store's use; a server that tells nothing uses 0 bytes of an unknown limit."""
    if not all(infos):
        return Capacity(0, note="the server does not tell its memory (INFO is refused): the watermark is off")
    memories = [read_memory(info) for info in infos]
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
        rejected_connections=sum(int(info.get("rejected_connections", 0)) for info in infos),
    )


async def _measure_queue(client: Client, queue: str) -> tuple[int, int, int]:
    root = client.queue_key(queue)
    ended = [f":keys:{end.decode()}" for end in await client.command("ZRANGE", f"{root}:key_ends", 0, -1)]
    counts = [await client.command("HLEN", f"{root}{key}") for key in (*_WAITING, _DEAD[0], *_SHARED[:2])]
    sizes = [await _measure(client, root, [key]) for key in _SHARED]
    waiting, finished, dead = zip(*map(_divide, sizes, _holders(*counts)), strict=True)
    return (
        sum(waiting) + await _measure(client, root, _WAITING),
        sum(finished) + await _measure(client, root, [*_FINISHED, *ended]),
        sum(dead) + await _measure(client, root, _DEAD),
    )


def _holders(waiting: int, dead: int, tried: int, failed: int) -> list[tuple[int, int, int]]:
    """How many waiting, finished and dead messages have something in each of the shared keys.

    Every dead letter has progress and mostly failures. The other progress is of what waits or runs and is no
    longer as it was accepted; failures beyond both are those of finished messages.
    """
    waiting_tried = max(0, tried - dead)
    dead_failed = min(dead, failed)
    waiting_failed = min(waiting_tried, failed - dead_failed)
    finished_failed = failed - dead_failed - waiting_failed
    return [
        (waiting_tried, 0, min(dead, tried)),
        (waiting_failed, finished_failed, dead_failed),
        (waiting, 0, dead),
    ]


def _divide(size: int, counts: tuple[int, int, int]) -> tuple[int, int, int]:
    waiting, finished, dead = (size * count // max(1, sum(counts)) for count in counts)
    return waiting, finished, dead


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
