"""How full a server is: the watermark above which nothing new is accepted, so that work can drain (P38).

The server's own limit refuses too, but only when the last byte is used. Memory is read at most once a second
and node; between two readings more may be accepted than fits below the watermark. A server without a limit,
or one that does not tell, has no watermark.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from redis.exceptions import NoPermissionError

from redrive.core.errors import StoreFull
from redrive.stores.redis.connections import Node

_READ_AGAIN_S = 1.0


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes in use and the limit; 0 is no limit."""

    used_bytes: int
    limit_bytes: int

    def is_above(self, share: float) -> bool:
        return self.limit_bytes > 0 and self.used_bytes > share * self.limit_bytes


@dataclass(slots=True)
class _Reading:
    memory: Memory | None
    read_s: float


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
        if reading is None or now_s - reading.read_s >= _READ_AGAIN_S:
            known = None if reading is None else reading.memory
            reading = self._readings[node.address] = _Reading(known, now_s)
            reading.memory = await _ask(node)
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
