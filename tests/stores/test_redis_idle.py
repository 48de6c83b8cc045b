"""An idle worker: it wakes by a hint, long before its next poll, and hardly speaks to the server before."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest
from msgspec.structs import replace

from redrive import Redrive
from redrive.core.lanes import LaneState
from redrive.core.settings import WorkerSettings
from redrive.stores.redis import RedisStore
from redrive.stores.redis.scripts import load_script
from redrive.wiring import load
from tests.conformance import makers

QUEUE = makers.QUEUE
LONG = 60.0
FEW_A_SECOND = 4
SWEEPS = 8
"""They take 16 s: the first look for alerts, after 10 s, is always among what is counted."""
HINTS = 4


@asynccontextmanager
async def working(app: Redrive) -> AsyncIterator[None]:
    run = asyncio.create_task(app.run(signals=False))
    try:
        yield
    finally:
        run.cancel()
        with suppress(asyncio.CancelledError):
            await run


@asynccontextmanager
async def monitored(url: str) -> AsyncIterator[asyncio.StreamReader]:
    """Every command that the server runs, a line each."""
    port = int(url.rpartition(":")[2].removesuffix("/0"))
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"MONITOR\r\n")
    await reader.readline()
    yield reader
    writer.close()


def make_app(url: str, prefix: str, worker: WorkerSettings) -> Redrive:
    return Redrive(settings=replace(load({"store": f"{url}?prefix={prefix}"}), worker=worker))


async def test_a_new_message_wakes_an_idle_worker_long_before_it_polls(redis_url: str, prefix: str) -> None:
    app, arrived = make_app(redis_url, prefix, WorkerSettings(poll_s=LONG)), asyncio.Queue[int]()

    @app.handler("orders")
    async def handle(number: int) -> None:
        arrived.put_nowait(number)

    async with app, monitored(redis_url) as commands, working(app):
        for number in range(5):
            await blocked(commands, prefix)
            async with asyncio.timeout(5):
                await app.submit("orders", number)
                assert await arrived.get() == number


async def blocked(commands: asyncio.StreamReader, prefix: str) -> None:
    """Until the worker waits for a hint."""
    async with asyncio.timeout(10):
        while not ((line := await commands.readline()) and b'"BLPOP"' in line and prefix.encode() in line):
            pass


async def test_an_idle_worker_sends_a_few_commands_a_second(redis_url: str, prefix: str) -> None:
    app, sweep = make_app(redis_url, prefix, WorkerSettings()), load_script("reclaim").sha.encode()

    @app.handler("orders")
    async def handle(number: int) -> None:
        raise AssertionError("there is no work")

    async with app, monitored(redis_url) as commands, working(app):
        await blocked(commands, prefix)
        sent, sweeps, began_s = 0, 0, asyncio.get_running_loop().time()
        while sweeps < SWEEPS:
            line = await commands.readline()
            if b" lua]" not in line and prefix.encode() in line:
                sent += 1
                sweeps += sweep in line
        seconds = asyncio.get_running_loop().time() - began_s
    assert sent <= FEW_A_SECOND * seconds


async def test_what_is_due_sooner_than_all_that_is_known_wakes_who_waits(store: RedisStore) -> None:
    await makers.append(store, makers.entry(store, delay_s=3_600))
    await store.wait([QUEUE], 0.01)
    waiting = asyncio.create_task(store.wait([QUEUE], LONG))
    await makers.append(store, makers.entry(store, delay_s=7_200))
    await makers.append(store, makers.entry(store, delay_s=1_800))
    async with asyncio.timeout(5):
        await waiting
    claimed = await makers.claim(store)
    assert claimed.next_at is not None
    assert claimed.next_at < store.now() + 2_000_000


async def test_a_hint_that_a_lost_worker_took_is_given_again(store: RedisStore) -> None:
    await makers.submit(store)
    await store.wait([QUEUE], LONG)
    await store.reclaim(QUEUE, makers.new_token(), 30, 10)
    async with asyncio.timeout(5):
        await store.wait([QUEUE], LONG)
    assert len(await makers.take(store)) == 1


async def test_no_hint_is_given_for_a_queue_that_is_paused_or_has_nothing_due(store: RedisStore) -> None:
    await makers.submit(store)
    await store.set_queue(QUEUE, LaneState.PAUSED)
    await makers.append(store, makers.entry(store, delay_s=3_600))
    for _ in range(HINTS):
        await store.wait([QUEUE], 0.01)
    await store.reclaim(QUEUE, makers.new_token(), 30, 10)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.1):
            await store.wait([QUEUE], LONG)
