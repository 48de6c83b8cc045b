"""The Redis store: every port of core.ports on one server, a queue's keys in one slot.

Each verb is one Lua script in stores/lua, atomic on its queue. In the small: no cluster client, no memory
watermark, no tuning. Known weakness: ids are unique within a queue, not across queues.
"""

from __future__ import annotations

from redrive.core.errors import StoreError, StoreUnavailable
from redrive.core.ports import Description, Store
from redrive.core.settings import FinishedSettings
from redrive.stores.redis.client import Client, whole_call
from redrive.stores.redis.durability import judge
from redrive.stores.redis.errors import mask_url
from redrive.stores.redis.lanes import RedisLanes
from redrive.stores.redis.ledger import RedisLedger
from redrive.stores.redis.outbox import RedisOutbox
from redrive.stores.redis.records import RedisJournal, RedisRecords
from redrive.stores.redis.source import RedisSource
from redrive.stores.redis.upkeep import RedisUpkeep

__all__ = ["RedisStore"]

_SETTINGS = ("appendonly", "appendfsync", "maxmemory", "maxmemory-policy")


class RedisStore(RedisOutbox, RedisSource, RedisUpkeep, RedisLedger, RedisLanes, RedisRecords, RedisJournal):
    """core.ports.Store on a Redis 7 server; `prefix` keeps environments apart."""

    def __init__(
        self, url: str, *, prefix: str = "redrive", finished: FinishedSettings | None = None
    ) -> None:
        self._finished = finished or FinishedSettings()
        self._client = Client(url, prefix)

    @property
    def skew_ms(self) -> int:
        return self._client.skew_ms

    @skew_ms.setter
    def skew_ms(self, skew_ms: int) -> None:
        self._client.skew_ms = skew_ms

    async def open(self) -> None:
        await self._client.open()

    async def close(self) -> None:
        await self._client.close()

    def twin(self) -> Store:
        twin = RedisStore(self._client.url, prefix=self._client.prefix, finished=self._finished)
        twin.skew_ms = self.skew_ms
        return twin

    @whole_call
    async def describe(self) -> Description:
        durability, meaning = judge(await self._read_settings())
        return Description(mask_url(self._client.url), durability, meaning)

    async def _read_settings(self) -> dict[str, str]:
        settings: dict[str, str] = {}
        try:
            for name in _SETTINGS:
                settings |= await self._client.read_setting(name)
        except StoreUnavailable:
            raise
        except StoreError:
            return {}
        return settings
