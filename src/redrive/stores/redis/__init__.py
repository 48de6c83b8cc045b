"""The Redis store: every port of core.store.Store on one server or cluster, a queue's keys in one slot.

Each verb is one Lua script in stores/lua, atomic on its queue. A server that may lose what was accepted
without any fault is refused unless the settings allow it. Known weakness: ids are unique within a
queue, not across queues.
"""

from __future__ import annotations

from dataclasses import replace

from redrive.core.condition import Capacity, Description, Finding
from redrive.core.errors import MissingExtra
from redrive.core.settings import FinishedSettings, RedisSettings
from redrive.core.store import Store

try:
    import redis  # noqa: F401 - said here once, so that the rooms below may import it plainly
except ImportError as error:
    raise MissingExtra("redis://", "redis") from error

from redrive.stores.redis.append import RedisOutbox
from redrive.stores.redis.claim import RedisClaim
from redrive.stores.redis.client import Client, whole_call
from redrive.stores.redis.errors import mask_url
from redrive.stores.redis.examination import (
    Facts,
    engine_of,
    examine_node,
    judge_all,
    read_facts,
    refuse_unsafe,
)
from redrive.stores.redis.lanes import RedisLanes
from redrive.stores.redis.ledger import RedisFeed, RedisLedger
from redrive.stores.redis.memory import measure
from redrive.stores.redis.moves import RedisMoves
from redrive.stores.redis.records import RedisJournal, RedisRecords
from redrive.stores.redis.settle import RedisSettle
from redrive.stores.redis.totals import RedisTotals
from redrive.stores.redis.upkeep import RedisUpkeep
from redrive.stores.redis.wait import RedisWait

__all__ = ["RedisStore"]


class RedisStore(
    RedisOutbox,
    RedisClaim,
    RedisSettle,
    RedisWait,
    RedisUpkeep,
    RedisLedger,
    RedisMoves,
    RedisFeed,
    RedisLanes,
    RedisRecords,
    RedisJournal,
    RedisTotals,
):
    """core.store.Store on a Redis 7 server; `prefix` keeps environments apart."""

    def __init__(
        self,
        url: str,
        *,
        prefix: str = "redrive",
        finished: FinishedSettings | None = None,
        settings: RedisSettings | None = None,
        cluster: bool | None = None,
    ) -> None:
        self._finished = finished or FinishedSettings()
        self._client = Client(url, prefix, settings, cluster=cluster)

    @property
    def skew_ms(self) -> int:
        return self._client.skew_ms

    @skew_ms.setter
    def skew_ms(self, skew_ms: int) -> None:
        self._client.skew_ms = skew_ms

    async def open(self) -> None:
        await self._client.open(None if self._client.settings.allow_unsafe else self._refuse_unsafe)

    async def close(self) -> None:
        await self._client.close()

    def abandon(self) -> None:
        self._client.abandon()

    def twin(self) -> Store:
        client = self._client
        twin = RedisStore(
            client.url,
            prefix=client.prefix,
            finished=self._finished,
            settings=client.settings,
            cluster=client.cluster,
        )
        twin.skew_ms = self.skew_ms
        return twin

    @whole_call
    async def describe(self) -> Description:
        facts = await self._read_facts()
        durability, meaning = judge_all(facts)
        return Description(mask_url(self._client.url), durability, meaning, engine_of(facts))

    @whole_call
    async def capacity(self) -> Capacity:
        return await measure(self._client, [facts.info for facts in await self._read_facts()])

    @whole_call
    async def examine(self) -> list[Finding]:
        nodes = await self._client.each_node(examine_node)
        if len(nodes) == 1:
            return list(nodes[0][1])
        return [
            replace(finding, subject=f"{finding.subject} of {node.address}")
            for node, findings in nodes
            for finding in findings
        ]

    async def _refuse_unsafe(self) -> None:
        refuse_unsafe(await self._read_facts())

    async def _read_facts(self) -> list[Facts]:
        return [facts for _, facts in await self._client.each_node(read_facts)]
