"""Memory: what is known of it, and that a nearly full server refuses new work, drains and accepts again."""

from __future__ import annotations

import pytest
from redis.asyncio import Redis

from redrive.core.errors import StoreFull
from redrive.core.lifecycle import Move
from redrive.core.ports import Cleanup
from redrive.core.settings import FinishedSettings, RedisSettings
from redrive.stores.redis import RedisStore
from tests.conformance import makers
from tests.stores.redis_server import eventually, opened

BODY = b"x" * 10_000


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


async def test_memory_by_state_follows_the_messages_and_goes_down_with_them(url: str) -> None:
    async with opened(RedisStore(url)) as store:

        async def shares() -> list[bool]:
            """Whether waiting, finished and dead messages take memory."""
            told = await store.capacity()
            return [bool(size) for size in (told.waiting_bytes, told.finished_bytes, told.dead_bytes)]

        await makers.append(store, *(makers.entry(store, body=BODY, dedupe=f"k{n}") for n in range(20)))
        await makers.retry(store, *await makers.take(store))
        assert await shares() == [True, False, False]
        await makers.bury(store, *await makers.take(store))
        assert await shares() == [False, False, True]
        letters = makers.keys([one.message.id for one in await makers.letters(store)])
        await store.redrive(makers.QUEUE, letters[:10], actor="ann")
        await store.remove(makers.QUEUE, letters[10:], Move.DISCARD, actor="ann")
        assert await shares() == [True, True, False]
        await makers.complete(store, *await makers.take(store))
        assert await shares() == [False, True, False]
        before = (await store.capacity()).finished_bytes
        store.skew_ms += 2 * 86_400_000
        while await store.cleanup(Cleanup(store.now(), keep=0)):
            pass
        between = (await store.capacity()).finished_bytes
        assert before is not None
        assert between is not None
        assert between < before
        while await store.cleanup(Cleanup(store.now(), keep=0, discarded_before_at=store.now())):
            pass
        assert await shares() == [False, False, False]


async def test_memory_is_asked_for_at_most_about_once_a_second(url: str, server: Redis) -> None:
    async with opened(RedisStore(url)) as store:
        await server.config_resetstat()
        for _ in range(200):
            await makers.submit(store)
        calls = (await server.info("commandstats"))["cmdstat_info"]["calls"]
        uptime = (await server.info("server"))["uptime_in_seconds"]
    assert calls <= uptime + 1
