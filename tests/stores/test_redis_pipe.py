"""The connection of the scripts: many are under way at once, and each is answered by its own reply."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from redis.asyncio import ConnectionPool, Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import AuthenticationError, NoScriptError, ResponseError
from redis.exceptions import ConnectionError as LostConnection
from redis.exceptions import TimeoutError as NoAnswer

from redrive.core.errors import StoreUnavailable
from redrive.stores.redis import RedisStore
from redrive.stores.redis.pipe import BlockingReads, Pipe, pack
from tests.conformance import makers
from tests.servers import RedisServer, start_redis
from tests.stores.redis_server import connected, eventually, opened
from tests.waiting import wait_until

LONG_S = 30.0


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RedisServer]:
    server = start_redis(tmp_path)
    yield server
    server.stop()


@pytest.fixture
async def operator(server: RedisServer) -> AsyncIterator[Redis]:
    async with connected(server.url) as operator:
        yield operator


@asynccontextmanager
async def piped(url: str, timeout_s: float = LONG_S) -> AsyncIterator[Pipe]:
    pool = ConnectionPool.from_url(url, protocol=2, retry=Retry(NoBackoff(), 0))
    pipe = Pipe(pool, timeout_s)
    try:
        yield pipe
    finally:
        await pipe.close()
        await pool.aclose()


async def test_a_caller_who_is_cancelled_while_the_connection_opens_does_not_wait_on(
    server: RedisServer, operator: Redis
) -> None:
    pool = ConnectionPool.from_url(server.url, protocol=2, retry=Retry(NoBackoff(), 0))
    for turns in range(60):
        waiting = asyncio.create_task(BlockingReads(pool).run(("BLPOP", "nothing", "60")))
        for _ in range(turns):
            await asyncio.sleep(0)
        waiting.cancel()
        async with asyncio.timeout(5):
            with pytest.raises(asyncio.CancelledError):
                await waiting

    async def only_the_operator_is_left() -> bool:
        return len(await operator.client_list()) == 1

    await wait_until(only_the_operator_is_left, 10, "no connection is left")


async def test_many_commands_go_through_one_connection_and_each_gets_its_own_reply(
    server: RedisServer, operator: Redis
) -> None:
    async with piped(server.url) as pipe:
        before = await _connections(operator)
        texts = [b"x" * (length * 1_000) for length in range(300)]
        assert await asyncio.gather(*(pipe.run(("ECHO", text)) for text in texts)) == texts
        assert await _connections(operator) == before + 1


async def test_an_error_is_raised_to_the_one_who_sent_its_command(server: RedisServer) -> None:
    async with piped(server.url) as pipe:
        answers = await asyncio.gather(
            pipe.run(("ECHO", 1)),
            pipe.run(("EVALSHA", "0" * 40, 0)),
            pipe.run(("NONSENSE",)),
            pipe.run(("ECHO", 2)),
            return_exceptions=True,
        )
        assert isinstance(answers[1], NoScriptError)
        assert isinstance(answers[2], ResponseError)
        assert (answers[0], answers[3]) == (b"1", b"2")


async def test_the_reply_of_a_caller_who_was_cancelled_answers_nobody_else(
    server: RedisServer, operator: Redis
) -> None:
    async with piped(server.url) as pipe:
        await pipe.run(("PING",))
        given_up = asyncio.create_task(pipe.run(("BLPOP", "list", 0)))
        await asyncio.sleep(0)
        given_up.cancel()
        waiting = asyncio.create_task(pipe.run(("ECHO", "mine")))
        await asyncio.sleep(0)
        await operator.execute_command("RPUSH", "list", "late")
        assert await waiting == b"mine"
        assert given_up.cancelled()


async def test_silence_is_a_loss_for_everybody_who_waits_and_the_next_call_connects_anew(
    server: RedisServer,
) -> None:
    async with piped(server.url, timeout_s=0.1) as pipe:
        calls = (pipe.run(command) for command in [("BLPOP", "nothing", 0), ("PING",), ("PING",)])
        answers = await asyncio.gather(*calls, return_exceptions=True)
        assert [type(answer) for answer in answers] == [NoAnswer] * 3
        pipe._timeout_s = LONG_S
        assert await pipe.run(("ECHO", "again")) == b"again"


async def test_a_connection_that_nobody_waits_on_may_be_quiet(server: RedisServer) -> None:
    async with piped(server.url, timeout_s=1.0) as pipe, piped(server.url) as other:
        first = await pipe.run(("CLIENT", "ID"))
        await other.run(("BLPOP", "nothing", 1.1))
        assert await pipe.run(("CLIENT", "ID")) == first


async def test_a_connection_that_is_cut_is_told_to_everybody_who_waits(
    server: RedisServer, operator: Redis
) -> None:
    async with piped(server.url) as pipe:
        number = await pipe.run(("CLIENT", "ID"))
        calls = [asyncio.create_task(pipe.run(("BLPOP", "nothing", 0))) for _ in range(3)]
        await asyncio.sleep(0)
        await operator.execute_command("CLIENT", "KILL", "ID", number)
        answers = await asyncio.gather(*calls, return_exceptions=True)
        assert [type(answer) for answer in answers] == [LostConnection] * 3
        assert await pipe.run(("CLIENT", "ID")) > number


async def test_a_renewed_pipe_lets_the_old_connection_answer_what_is_under_way(
    server: RedisServer, operator: Redis
) -> None:
    async with piped(server.url) as pipe:
        old = await pipe.run(("CLIENT", "ID"))
        waiting = asyncio.create_task(pipe.run(("BLPOP", "list", 0)))
        await asyncio.sleep(0)
        pipe.renew()
        assert await pipe.run(("CLIENT", "ID")) > old
        await pipe.run(("RPUSH", "list", "element"))
        assert await waiting == [b"list", b"element"]

        async def closed() -> bool:
            return not await operator.execute_command("CLIENT", "LIST", "ID", old)

        await wait_until(closed, 5, "the old connection is closed")


async def test_what_is_no_answer_of_redis_loses_the_connection() -> None:
    ended = asyncio.Event()

    async def babble(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while request := await reader.read(65_536):
            writer.write(b"+OK\r\n" * request.count(b"SETINFO") or b"HTTP/1.1 400 Bad Request\r\n")
        writer.close()
        await writer.wait_closed()
        ended.set()

    babbler = await asyncio.start_server(babble, "127.0.0.1", 0)
    async with babbler, piped(f"redis://127.0.0.1:{babbler.sockets[0].getsockname()[1]}/0") as pipe:
        with pytest.raises(LostConnection, match="cannot be read"):
            await pipe.run(("PING",))
        await ended.wait()


async def test_a_login_that_is_refused_is_tried_once_for_all_who_wait(
    server: RedisServer, operator: Redis
) -> None:
    await operator.execute_command("ACL", "SETUSER", "other", "on", ">right", "~*", "+@all")
    before = await _connections(operator)
    async with piped(server.url.replace("redis://", "redis://other:wr0ng@")) as pipe:
        answers = await asyncio.gather(*(pipe.run(("PING",)) for _ in range(5)), return_exceptions=True)
    assert [type(answer) for answer in answers] == [AuthenticationError] * 5
    assert await _connections(operator) == before + 1


async def test_calls_of_a_store_share_a_connection_and_survive_its_loss(
    server: RedisServer, operator: Redis
) -> None:
    async with opened(RedisStore(server.url)) as store:
        await makers.submit(store)
        await asyncio.gather(*(makers.submit(store) for _ in range(50)))
        before = await _connections(operator)
        await asyncio.gather(*(makers.submit(store) for _ in range(50)))
        assert await _connections(operator) == before
        await operator.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        assert len(await eventually(lambda: makers.take(store, 200))) == 101


async def test_a_store_whose_server_is_gone_says_so_to_all_calls_under_way(server: RedisServer) -> None:
    async with opened(RedisStore(server.url)) as store:
        await makers.submit(store)
        server.stop()
        calls = (makers.take(store) for _ in range(10))
        answers = await asyncio.gather(*calls, return_exceptions=True)
        assert [type(answer) for answer in answers] == [StoreUnavailable] * 10


@pytest.mark.parametrize(
    ("parts", "packed"),
    [
        (("PING",), b"*1\r\n$4\r\nPING\r\n"),
        (
            ("SET", "käse", b"\x00\r\n", -7),
            b"*4\r\n$3\r\nSET\r\n$5\r\nk\xc3\xa4se\r\n$3\r\n\x00\r\n\r\n$2\r\n-7\r\n",
        ),
    ],
)
def test_a_command_is_packed_as_the_protocol_says(
    parts: tuple[str | int | bytes, ...], packed: bytes
) -> None:
    assert pack(parts) == packed


async def _connections(operator: Redis) -> int:
    """How many connections the server has ever accepted."""
    return int((await operator.info("stats"))["total_connections_received"])
