"""How full a server is: the watermark above which nothing new is accepted, so that work can drain.

The server's own limit refuses too, but only when the last byte is used. Memory is read about once a second,
and sooner when the watermark could be reached before; what several processes add in that time may pass
it a little. A server without a limit, or one that does not tell, has no watermark.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from redis.exceptions import NoPermissionError

from redrive.core.errors import StoreFull
from redrive.stores.redis.connections import Node

_SELDOM_S = 1.0
_OFTEN_S = 0.02
_FASTEST_BYTES_S = 200_000_000


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
