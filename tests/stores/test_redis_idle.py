"""An idle worker: it wakes by a hint, long before its next poll, and hardly speaks to the server before."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace

import pytest

from redrive import Redrive
from redrive.config import load
from redrive.core.settings import WorkerSettings

LONG = 60.0
FEW_A_SECOND = 10


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


@pytest.fixture
def prefix() -> str:
    return f"idle:{uuid.uuid4().hex[:12]}"


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
    app = make_app(redis_url, prefix, WorkerSettings())

    @app.handler("orders")
    async def handle(number: int) -> None:
        raise AssertionError("there is no work")

    async with app, monitored(redis_url) as commands, working(app):
        await blocked(commands, prefix)
        sent, waits, began_s = 0, 0, asyncio.get_running_loop().time()
        while waits < 3:
            line = await commands.readline()
            if b" lua]" not in line and prefix.encode() in line:
                sent += 1
                waits += b'"BLPOP"' in line
        seconds = asyncio.get_running_loop().time() - began_s
    assert sent <= FEW_A_SECOND * seconds
