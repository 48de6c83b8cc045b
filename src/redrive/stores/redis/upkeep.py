"""Upkeep on Redis: what any process may do for a queue, a page at a time."""

from __future__ import annotations

from redrive.core.message import Delivery
from redrive.core.ports import PAGE, Cleanup
from redrive.core.settings import FinishedSettings
from redrive.stores.redis.answers import read_batch
from redrive.stores.redis.client import Client, to_ms, whole_call


class RedisUpkeep:
    """core.ports.Upkeep. `Cleanup.keep` counts a queue's records: each queue is a slot of its own."""

    _client: Client
    _finished: FinishedSettings

    async def queue_names(self) -> list[str]:
        return await self._client.queues()

    @whole_call
    async def reclaim(self, queue: str, token: str, lease_s: float, limit: int) -> list[Delivery]:
        root, page = self._client.queue_key(queue), max(0, min(limit, PAGE))
        await self._client.relist_queue(queue)
        batch = await self._client.run("reclaim", root, token, to_ms(lease_s), page)
        return read_batch(queue, token, batch)

    @whole_call
    async def cleanup(self, cleanup: Cleanup) -> int:
        keep = -1 if cleanup.keep is None else cleanup.keep
        removed = 0
        for queue in await self._client.queues():
            root, rest = self._client.queue_key(queue), cleanup.limit - removed
            if rest > 0:
                removed += await self._client.run(
                    "cleanup",
                    root,
                    cleanup.finished_before_at,
                    keep,
                    rest,
                    cleanup.discarded_before_at,
                    to_ms(self._finished.remember_s),
                )
        return removed
