"""How the client behaves on the wire: never repeats, never reads a late reply, wakes the waiting."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncIterator

import pytest

from redrive.core.errors import StoreError, StoreUnavailable
from redrive.core.lanes import LaneState
from redrive.core.settings import RedisSettings
from redrive.stores.redis import RedisStore
from tests.conformance import makers
from tests.servers import ask
from tests.waiting import wait_until

QUEUE = makers.QUEUE
HINTS = 4


class Relay:
    """Passes bytes to a server; counts appends on the wire and can cut the line once, before an answer."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._server: asyncio.Server | None = None
        self.appends = 0
        self.cut = False

    async def start(self) -> str:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return f"redis://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/0"

    async def stop(self) -> None:
        assert self._server is not None
        self._server.close()
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        upstream_reader, upstream_writer = await asyncio.open_connection("127.0.0.1", self._port)
        answers = asyncio.create_task(self._answer(upstream_reader, writer))
        while data := await reader.read(65_536):
            self.appends += b"EVALSHA" in data or b"EVAL\r\n" in data
            upstream_writer.write(data)
            await upstream_writer.drain()
        answers.cancel()
        upstream_writer.close()
        writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65_536):
            if self.cut:
                self.cut = False
                writer.close()
                return
            writer.write(data)
            await writer.drain()


@pytest.fixture
def prefix() -> str:
    return f"wire:{uuid.uuid4().hex[:12]}"


@pytest.fixture
async def store(redis_url: str, prefix: str) -> AsyncIterator[RedisStore]:
    store = RedisStore(redis_url, prefix=prefix)
    await store.open()
    yield store
    await store.close()


async def test_a_write_whose_answer_is_lost_is_sent_once_and_the_repeat_answers_the_same(
    redis_url: str, prefix: str
) -> None:
    relay = Relay(int(redis_url.rpartition(":")[2].removesuffix("/0")))
    settings = RedisSettings(watermark=None)  # nothing but appends is sent, however long it takes
    store = RedisStore(await relay.start(), prefix=prefix, settings=settings)
    await store.open()
    await makers.submit(store)
    one, sent = makers.entry(store), relay.appends
    relay.cut = True
    with pytest.raises(StoreUnavailable):
        await makers.append(store, one)
    assert relay.appends == sent + 1
    (receipt,) = await makers.append(store, one)
    assert receipt.id == one.message.id
    assert (await makers.counts(store)).pending == 2
    await store.close()
    await relay.stop()


async def test_a_cancelled_call_leaves_no_late_reply_for_the_next_one(store: RedisStore) -> None:
    await makers.submit(store, 50)
    for _ in range(20):
        call = asyncio.create_task(store.describe())
        await asyncio.sleep(0)
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
        assert (await makers.counts(store)).queue == QUEUE
    assert len(await makers.take(store)) == 50


async def test_a_new_message_of_another_process_wakes_the_waiting(
    store: RedisStore, redis_url: str, prefix: str
) -> None:
    other = RedisStore(redis_url, prefix=prefix)
    await other.open()
    waiting = asyncio.create_task(store.wait([QUEUE, "mail"], 60))
    await asyncio.sleep(0)
    await makers.submit(other)
    async with asyncio.timeout(5):
        await waiting
    await other.close()


async def test_waiting_ends_when_the_next_message_becomes_due(store: RedisStore) -> None:
    await makers.append(store, makers.entry(store, delay_s=1.2))
    async with asyncio.timeout(5):
        await store.wait([QUEUE], 60)


async def test_waiting_ends_at_its_timeout(store: RedisStore) -> None:
    async with asyncio.timeout(5):
        await store.wait([QUEUE], 0.02)


async def test_a_process_that_stood_still_while_it_waited_does_not_blame_the_server(
    store: RedisStore, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("redrive.stores.redis.client.HINT_GRACE_S", 0.1)
    waiting = asyncio.create_task(store.wait([QUEUE], 0.5))
    port = int(redis_url.rpartition(":")[2].removesuffix("/0"))
    await wait_until(lambda: b"cmd=blpop" in ask(port, "CLIENT", "LIST"), 10, "the worker listens")
    time.sleep(2.0)  # noqa: ASYNC251 - the loop stands still, as that of a stopped process does
    await waiting


async def test_due_work_of_a_paused_queue_does_not_keep_the_waiting_awake(store: RedisStore) -> None:
    await makers.append(store, makers.entry(store, delay_s=60))
    await store.set_queue(QUEUE, LaneState.PAUSED)
    store.skew_ms += 120_000
    for _ in range(HINTS):
        await store.wait([QUEUE], 0.02)
    started = asyncio.get_running_loop().time()
    await store.wait([QUEUE], 0.1)
    assert asyncio.get_running_loop().time() - started > 0.09


@pytest.mark.parametrize("turns", [0, 1, 3, 5, 8, 13, 20, 30, 50])
async def test_closing_wakes_the_waiting_and_later_calls_are_refused(
    redis_url: str, prefix: str, turns: int
) -> None:
    store = RedisStore(redis_url, prefix=prefix)
    await store.open()
    waiting = asyncio.create_task(store.wait([QUEUE], 60))
    for _ in range(1 + turns):
        await asyncio.sleep(0)
    async with asyncio.timeout(5):
        await store.close()
        await waiting
    with pytest.raises(StoreError, match="not open"):
        await store.queues()
