"""A server that has lost data: emptied, cut short, or without its list of queues.

What was lost is gone; what is accepted afterwards must be seen, handed out and taken over like anything else.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from redis.asyncio import Redis

from redrive import Redrive
from redrive.core.letters import ChangePage
from redrive.core.lifecycle import State
from redrive.core.retry import PROFILES
from redrive.core.settings import FinishedSettings, RedisSettings, RetentionSettings
from redrive.engine.upkeep import Housekeeping
from redrive.stores.redis import RedisStore, client
from redrive.telemetry.door import Telemetry
from redrive.wiring import load
from tests.conformance import makers
from tests.faults.redis_server import open_redis
from tests.stores.redis_server import eventually, opened
from tests.waiting import wait_until

QUEUE = makers.QUEUE
UNSAFE = RedisSettings(allow_unsafe=True)


async def test_a_submitter_lists_its_queue_again_after_the_server_was_emptied(
    url: str, server: Redis
) -> None:
    async with opened(RedisStore(url)) as store:
        await makers.submit(store)
        await server.flushall()
        (message_id,) = await makers.submit(store)
        assert await store.queue_names() == [QUEUE]
        assert (await makers.account(store, message_id)).state is State.WAITING
        assert (await makers.counts(store)).pending == 1
        assert makers.ids_of(await makers.take(store)) == [message_id]


async def test_a_submitter_forgets_soon_that_its_queue_is_listed(
    url: str, server: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "LISTED_S", 600.0)
    async with opened(RedisStore(url)) as store:
        await makers.submit(store)
        await server.delete("redrive:queues")
        await makers.submit(store)
        assert await store.queue_names() == [], "remembered for a moment"
        monkeypatch.setattr(client, "LISTED_S", 0.0)
        await makers.submit(store)
        assert await store.queue_names() == [QUEUE]


async def test_a_worker_takes_over_and_lists_a_queue_that_the_list_has_lost(url: str, server: Redis) -> None:
    async with opened(RedisStore(url)) as store, opened(RedisStore(url)) as other:
        (message_id,) = await makers.submit(store)
        await makers.take(store)
        await server.delete("redrive:queues")
        other.skew_ms = store.skew_ms = 60_000
        parts = (FinishedSettings(), RetentionSettings(), 30.0)
        upkeep = Housekeeping(
            other, Telemetry([]), lambda _: PROFILES["production"], *parts, [QUEUE, "never used"]
        )
        await upkeep.reclaim()
        assert await store.queue_names() == [QUEUE]
        assert (await makers.account(store, message_id)).state is State.WAITING


async def test_a_full_server_that_lost_its_list_still_lets_work_be_taken_over(
    url: str, server: Redis
) -> None:
    async with opened(RedisStore(url, settings=RedisSettings(watermark=None))) as store:
        (message_id,) = await makers.submit(store)
        await makers.take(store)
        await server.delete("redrive:queues")
        await server.config_set("maxmemory", 1)
        async with opened(RedisStore(url)) as other:
            other.skew_ms = 60_000
            (lost,) = await other.reclaim(QUEUE, makers.new_token(), 30.0, 10)
        assert lost.message.id == message_id


async def test_a_running_worker_goes_on_after_the_server_was_emptied(
    url: str, server: Redis, tmp_path: Path
) -> None:
    app = Redrive(settings=load({"store": url, "profile": "development"}, environ={}, folder=tmp_path))
    done: list[int] = []

    @app.handler("orders")
    async def handle(number: int) -> None:
        done.append(number)

    async with app:
        worker = asyncio.create_task(app.run(signals=False))
        await app.submit("orders", 1)
        await wait_until(lambda: done == [1], 10, "the first is done")
        await server.flushall()
        receipt = await app.submit("orders", 2)
        await wait_until(lambda: done == [1, 2], 10, "the second is done")
        await wait_until(lambda: _is_done(app, receipt.id), 10, "the second is settled")
        assert [one.queue for one in await app.store.queues()] == ["orders"]
        worker.cancel()
        await asyncio.gather(worker, return_exceptions=True)


async def _is_done(app: Redrive, message_id: str) -> bool:
    account = await app.store.get(message_id)
    return account is not None and account.state is State.DONE


async def test_a_server_whose_file_was_cut_is_filled_again_by_those_who_knew_it(tmp_path: Path) -> None:
    async with (
        open_redis(tmp_path, appendfsync="always") as server,
        opened(RedisStore(server.url, settings=UNSAFE)) as store,
    ):
        await makers.submit(store, 3)
        server.kill()
        server.lose_end(1_000_000)
        await server.start()
        (receipt,) = await eventually(lambda: makers.append(store, makers.entry(store)))
        assert await store.queue_names() == [QUEUE]
        assert makers.ids_of(await makers.drain(store)) == [receipt.id]


async def test_every_index_begins_again_after_the_server_was_emptied(url: str, server: Redis) -> None:
    async with opened(RedisStore(url)) as store:
        await makers.dead(store, 50)
        position = (await _read(store)).position
        await server.flushall()
        letters = await makers.dead(store, 60)
        for _ in range(2):
            page = await store.changes(QUEUE, after=position)
            assert page.reset
            assert [change.id for change in page.changes] == letters


async def _read(store: RedisStore) -> ChangePage:
    page = await store.changes(QUEUE, after=0)
    while page.more:
        page = await store.changes(QUEUE, after=page.position)
    return page
