"""Memory: what is known of it, and that a nearly full server refuses new work, drains and accepts again."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from redis.asyncio import Redis

from redrive.core.errors import StoreFull
from redrive.core.settings import FinishedSettings, RedisSettings
from redrive.stores.redis import RedisStore
from tests.conformance import makers
from tests.servers import start_redis
from tests.stores.redis_server import connected, eventually, opened

BODY = b"x" * 10_000


@pytest.fixture
async def url(tmp_path: Path) -> AsyncIterator[str]:
    server = start_redis(tmp_path)
    yield server.url
    server.stop()


@pytest.fixture
async def server(url: str) -> AsyncIterator[Redis]:
    async with connected(url) as server:
        yield server


async def leave_room(server: Redis, spare_bytes: int) -> None:
    used = (await server.info("memory"))["used_memory"]
    await server.config_set("maxmemory", used + spare_bytes)


async def fill(store: RedisStore) -> int:
    """Submit until the store is full; how many it took."""
    for count in range(10_000):
        try:
            await makers.submit(store, 20, body=BODY)
        except StoreFull:
            return count * 20
    raise AssertionError("the store never became full")


async def test_above_the_watermark_new_messages_are_refused_and_below_it_accepted_again(
    url: str, server: Redis
) -> None:
    await leave_room(server, 40_000_000)
    async with opened(RedisStore(url, finished=FinishedSettings(keep=0))) as store:
        taken = await fill(store)
        told = (await store.capacity(), await server.info("memory"))
        assert not told[0].accepts
        assert "watermark" in told[0].note
        assert told[1]["used_memory"] < told[1]["maxmemory"], "refused before the last byte was used"
        while deliveries := await makers.take(store, 100):
            assert await makers.complete(store, *deliveries) == set()
            taken -= len(deliveries)
        assert taken == 0
        await eventually(lambda: makers.submit(store, body=BODY))
        assert (await store.capacity()).accepts


async def test_without_a_watermark_only_the_servers_own_limit_refuses(url: str, server: Redis) -> None:
    async with opened(RedisStore(url, settings=RedisSettings(watermark=None))) as store:
        await makers.submit(store)
        await leave_room(server, 1_000_000)
        await fill(store)
        with pytest.raises(StoreFull, match="no memory left"):
            await makers.submit(store, 20, body=BODY)


async def test_without_a_limit_there_is_no_watermark_and_the_store_says_so(url: str, server: Redis) -> None:
    await server.config_set("maxmemory", 0)
    async with opened(RedisStore(url, settings=RedisSettings(watermark=0.000_001))) as store:
        await makers.submit(store)
        capacity = await store.capacity()
    assert capacity.limit_bytes is None
    assert "watermark is off" in capacity.note


async def test_a_user_who_may_not_ask_for_memory_submits_without_a_watermark(url: str, server: Redis) -> None:
    await server.execute_command("ACL", "SETUSER", "blind", "on", ">x", "~*", "+@all", "-info", "-memory")
    address = url.replace("redis://", "redis://blind:x@")
    async with opened(RedisStore(address, settings=RedisSettings(watermark=0.000_001))) as store:
        await makers.submit(store)
        capacity = await store.capacity()
    assert "watermark is off" in capacity.note


async def test_the_memory_of_waiting_and_dead_messages_is_told_apart(url: str) -> None:
    async with opened(RedisStore(url)) as store:
        await makers.submit(store, 100, body=BODY)
        before = await store.capacity()
        assert before.waiting_bytes is not None
        assert before.waiting_bytes > 900_000
        await makers.bury(store, *await makers.take(store, 60))
        after = await store.capacity()
        await makers.complete(store, *await makers.take(store, 40))
        finished = await store.capacity()
    assert after.waiting_bytes is not None
    assert after.dead_bytes is not None
    assert 300_000 < after.waiting_bytes < 600_000
    assert after.dead_bytes > 500_000
    assert finished.waiting_bytes is not None
    assert finished.waiting_bytes < 20_000
    assert finished.finished_bytes


async def test_memory_is_asked_for_at_most_about_once_a_second(url: str, server: Redis) -> None:
    async with opened(RedisStore(url)) as store:
        await server.config_resetstat()
        for _ in range(200):
            await makers.submit(store)
        calls = (await server.info("commandstats"))["cmdstat_info"]["calls"]
        uptime = (await server.info("server"))["uptime_in_seconds"]
    assert calls <= uptime + 1
