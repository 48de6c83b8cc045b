"""A Redis server whose clock is set.

The server's clock is real; `seen` is what it said at the last look for ended leases, so that moving both it
and the skew is what setting the clock looks like, and moving the skew alone is time that passes.
"""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator

import pytest
from redis.asyncio import Redis

from redrive.core.message import Delivery
from redrive.stores.redis import RedisStore
from tests.conformance import makers
from tests.stores.redis_server import connected, opened

QUEUE = makers.QUEUE


class Site:
    """A store and a way to set its server's clock."""

    def __init__(self, store: RedisStore, server: Redis, root: str) -> None:
        self.store, self._server, self._root = store, server, root

    async def set_by(self, seconds: int) -> None:
        """Somebody sets the clock."""
        self.wait(seconds)
        await self._server.hincrby(self._root, "seen", -1000 * seconds)

    def wait(self, seconds: int) -> None:
        """Time passes."""
        self.store.skew_ms += 1000 * seconds

    async def reclaim(self) -> list[Delivery]:
        return await self.store.reclaim(QUEUE, makers.new_token(), 30.0, 100)


@pytest.fixture
async def site(redis_url: str) -> AsyncIterator[Site]:
    prefix = f"clock:{uuid.uuid4().hex[:12]}"
    async with connected(redis_url) as server, opened(RedisStore(redis_url, prefix=prefix)) as store:
        await makers.submit(store)
        assert await store.reclaim(QUEUE, makers.new_token(), 30.0, 100) == []
        yield Site(store, server, f"{prefix}:{{{QUEUE}}}")


async def test_a_clock_set_forward_ends_no_lease(site: Site) -> None:
    held = await makers.take_one(site.store)
    await site.set_by(3_600)
    assert await site.reclaim() == []
    assert await site.store.extend([held.lease], 30.0) == set()
    site.wait(25)
    assert await site.reclaim() == []
    assert await makers.complete(site.store, held) == set()


@pytest.mark.parametrize("seconds", [-3_600, 3_600])
async def test_the_lease_of_a_dead_worker_ends_in_time_though_the_clock_was_set(
    site: Site, seconds: int
) -> None:
    held = await makers.take_one(site.store)
    await site.set_by(seconds)
    assert await site.reclaim() == []
    site.wait(31)
    (lost,) = await site.reclaim()
    assert lost.message.id == held.message.id


async def test_a_lease_that_had_ended_before_the_clock_was_set_is_taken_over_at_once(site: Site) -> None:
    held = await makers.take_one(site.store)
    site.wait(31)
    await site.set_by(3_600)
    (lost,) = await site.reclaim()
    assert lost.message.id == held.message.id


async def test_a_lease_extended_since_the_clock_was_set_back_is_not_cut(site: Site) -> None:
    held = await makers.take_one(site.store)
    await site.set_by(-3_600)
    await site.store.extend([held.lease], 600.0)
    assert await site.reclaim() == []
    site.wait(60)
    assert await site.reclaim() == []


async def test_what_is_submitted_after_the_clock_was_set_back_is_due_at_once(site: Site) -> None:
    await makers.complete(site.store, await makers.take_one(site.store))
    store, behind_ms = site.store, 3_600_000
    store._client.learn_now(store.now() + behind_ms)
    made = makers.entry(store)
    assert made.due_at > makers.soon(store) - 60_000
    later = makers.entry(store, delay_s=600)
    await makers.append(store, made, later)
    assert makers.ids_of(await makers.take(store)) == [made.message.id]
    account = await makers.account(store, later.message.id)
    assert account.progress.due_at == later.due_at
