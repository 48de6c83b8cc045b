"""The connection that scripts go through: many are under way at once, answered in the order they were sent.

The driver connects, logs in and speaks TLS as the address says; then its stream is taken over, because the
driver knows one command at a time and reads a large reply in small pieces. Nothing is ever sent twice. A
caller who is cancelled leaves a reply behind, which is thrown away. A connection on which nothing comes for
too long while somebody waits is lost for all of them; the next call opens another.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import Any

import hiredis
from redis.asyncio import ConnectionPool
from redis.asyncio.connection import DefaultParser
from redis.exceptions import ConnectionError as LostConnection
from redis.exceptions import InvalidResponse, RedisError
from redis.exceptions import TimeoutError as NoAnswer

Argument = str | int | bytes

_BUFFER_BYTES = 256 * 1024


class Pipe:
    """The one connection to a server for scripts; opened when it is first used, and again after a loss."""

    def __init__(self, pool: ConnectionPool, timeout_s: float | None) -> None:
        self._pool, self._timeout_s = pool, timeout_s
        self._connection: ScriptConnection | None = None
        self._opening = asyncio.Lock()
        self._failure: Exception | None = None

    async def run(self, parts: Sequence[Argument]) -> Any:
        """Send a command and wait for its reply."""
        connection = self._connection
        if connection is None or connection.lost:
            connection = await self._open()
        return await connection.send(parts)

    def renew(self) -> None:
        """Open another connection from now on; what is under way is still answered by the old one."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.retire()

    async def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()

    async def _open(self) -> ScriptConnection:
        """A failure is that of everybody who waited for it: each trying in turn would take too long."""
        known = self._failure
        async with self._opening:
            if self._connection is not None and not self._connection.lost:
                return self._connection
            if self._failure is not None and self._failure is not known:
                raise self._failure
            try:
                self._connection = ScriptConnection(await _take_over(self._pool), self._timeout_s)
            except (RedisError, OSError) as failure:
                self._failure = failure
                raise
            return self._connection


class BlockingReads:
    """Connections for commands that wait in the server: each has one to itself, kept for the next one."""

    def __init__(self, pool: ConnectionPool) -> None:
        self._pool = pool
        self._idle: list[Pipe] = []

    async def run(self, *commands: Sequence[Argument]) -> Any:
        """The reply to the last of some commands; a caller who gives up closes their connection."""
        pipe = self._idle.pop() if self._idle else Pipe(self._pool, None)
        try:
            *_, answer = [await pipe.run(command) for command in commands]
        except BaseException:
            await pipe.close()
            raise
        self._idle.append(pipe)
        return answer

    async def close(self) -> None:
        """Close what nobody uses now."""
        idle, self._idle = self._idle, []
        for pipe in idle:
            await pipe.close()


class ScriptConnection(asyncio.BufferedProtocol):
    """One open connection. Once it is lost it stays lost, and everybody who waits for a reply is told."""

    def __init__(self, writer: asyncio.StreamWriter, timeout_s: float | None) -> None:
        self._writer, self._timeout_s = writer, timeout_s
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[asyncio.Future[Any]] = deque()
        self._reader = hiredis.Reader(protocolError=InvalidResponse, replyError=DefaultParser.parse_error)
        self._buffer = bytearray(_BUFFER_BYTES)
        self._heard_s = 0.0
        self._watch: asyncio.TimerHandle | None = None
        self._retired = False
        self._closed = self._loop.create_future()
        self.lost = False
        writer.transport.set_protocol(self)

    async def send(self, parts: Sequence[Argument]) -> Any:
        """Send a command and wait for its reply."""
        reply = self._loop.create_future()
        if not self._waiting:
            self._heard_s = self._loop.time()
        if self._watch is None and self._timeout_s is not None:
            self._watch = self._loop.call_later(self._timeout_s, self._look, self._timeout_s)
        self._waiting.append(reply)
        self._writer.transport.write(pack(parts))
        return await reply

    def retire(self) -> None:
        """Close as soon as nobody waits for a reply."""
        self._retired = True
        if not self._waiting:
            self._writer.transport.abort()

    async def close(self) -> None:
        """Close now; whoever waits is told that the connection is lost."""
        self._writer.transport.abort()
        await self._closed

    def get_buffer(self, sizehint: int) -> bytearray:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        self._heard_s = self._loop.time()
        try:
            self._reader.feed(self._buffer, 0, nbytes)  # type: ignore[arg-type] # it takes any buffer
            while (answer := self._reader.gets()) is not False:
                _answer(self._waiting.popleft(), answer)
        except (InvalidResponse, IndexError) as error:
            self._lose(LostConnection(f"the server's answer cannot be read: {error}"))
        if self._retired and not self._waiting:
            self._writer.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._lose(LostConnection(f"the connection was lost: {exc or 'closed by the server'}"))
        if not self._closed.done():
            self._closed.set_result(None)

    def _look(self, timeout_s: float) -> None:
        """Somebody may have waited in silence for too long."""
        self._watch = None
        if not self._waiting:
            return
        left_s = self._heard_s + timeout_s - self._loop.time()
        if left_s <= 0:
            self._lose(NoAnswer(f"no reply for {timeout_s:g} s"))
        else:
            self._watch = self._loop.call_later(left_s, self._look, timeout_s)

    def _lose(self, error: RedisError) -> None:
        self.lost = True
        self._writer.transport.abort()
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None
        while self._waiting:
            _answer(self._waiting.popleft(), type(error)(*error.args))


def _answer(reply: asyncio.Future[Any], answer: Any) -> None:
    if reply.done():
        return
    if isinstance(answer, Exception):
        reply.set_exception(answer)
    else:
        reply.set_result(answer)


async def _take_over(pool: ConnectionPool) -> asyncio.StreamWriter:
    """The stream of a connection that the driver has opened, and no longer knows of.

    The driver opens it in a task of its own: it waits by `asyncio.wait_for`, which on Python 3.11 may swallow
    the cancellation of whoever waits here.
    """
    connection: Any = pool.make_connection()  # type: ignore[no-untyped-call]
    connecting = asyncio.ensure_future(connection.connect())
    try:
        await asyncio.wait([connecting])
    except asyncio.CancelledError:
        connecting.add_done_callback(lambda _: _drop(connecting, connection))
        connecting.cancel()
        raise
    if connecting.cancelled():
        raise LostConnection("opening the connection was cancelled")
    connecting.result()
    return _stream(connection)


def _drop(connecting: asyncio.Future[None], connection: Any) -> None:
    """Nobody waits for this connection any more, however far it came."""
    if not connecting.cancelled():
        connecting.exception()
    if connection._writer is not None:
        _stream(connection).close()


def _stream(connection: Any) -> asyncio.StreamWriter:
    writer: asyncio.StreamWriter = connection._writer
    connection._reader = connection._writer = None
    return writer


def pack(parts: Sequence[Argument]) -> bytes:
    """A command as it goes over the wire."""
    packed = [b"*%d\r\n" % len(parts)]
    for part in parts:
        raw = part if isinstance(part, bytes) else str(part).encode()
        packed += (b"$%d\r\n" % len(raw), raw, b"\r\n")
    return b"".join(packed)
