"""The connections to one server: runs scripts, knows the keys, keeps the clock, translates errors.

The driver never repeats a command by itself (P4); ours are idempotent and their callers repeat them. A
connection whose command was cancelled is closed by the driver, so that no late reply answers the next
command (P5). Blocking reads have connections of their own, without a read timeout.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from redrive.core.errors import ConfigurationError, MissingExtra, StoreError, StoreUnavailable

try:
    from redis.asyncio import BlockingConnectionPool, Redis
    from redis.asyncio.retry import Retry
    from redis.backoff import NoBackoff
    from redis.exceptions import NoScriptError, RedisError
except ImportError as error:
    raise MissingExtra("redis://", "redis") from error

from redrive.stores.redis.errors import mask_url, translate
from redrive.stores.redis.scripts import load_script

FORMAT = 2
COMMAND_TIMEOUT_S = 30.0
CONNECT_TIMEOUT_S = 5.0
HINT_GRACE_S = 5.0
CLOCK_SET_MS = 5_000
CONNECTIONS = 16
BLOCKING_CONNECTIONS = 64

_PREFIX = re.compile(r"[A-Za-z0-9._:-]{1,64}", re.ASCII)

Argument = str | int | bytes
P = ParamSpec("P")
T = TypeVar("T")


class Client:
    """One address and prefix; opened once, used from one event loop, closed once."""

    def __init__(self, url: str, prefix: str) -> None:
        if not _PREFIX.fullmatch(prefix):
            raise ConfigurationError(f"prefix {prefix!r} is not a name: use 1-64 of A-Z a-z 0-9 . _ : -")
        self.url, self.prefix, self.skew_ms = url, prefix, 0
        self._offset_ms = time.time_ns() // 1_000_000 - _monotonic_ms()
        self._commands: Redis | None = None
        self._blocking: Redis | None = None
        self._closing = False
        self._under_way = self._whole_calls = 0
        self._idle = asyncio.Event()
        self._waits: set[asyncio.Timeout] = set()
        self._queues: set[str] = set()

    async def open(self) -> None:
        """Connect and check that the data is of a format known here."""
        if self._commands is not None:
            raise StoreError("the store is open already: open it once, or take a twin")
        self._closing = False
        self._commands = _connect(self.url, COMMAND_TIMEOUT_S, CONNECTIONS)
        self._blocking = _connect(self.url, None, BLOCKING_CONNECTIONS)
        try:
            await self._check_format()
            seconds, micros = await self.command("TIME")
            self._offset_ms = int(seconds) * 1000 + int(micros) // 1000 - _monotonic_ms()
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Wake those who wait for a hint, let the other calls end, then let go of the connections."""
        self._closing = True
        for scope in self._waits:
            if not scope.expired():
                scope.reschedule(asyncio.get_running_loop().time())
        while self._under_way:
            self._idle.clear()
            await self._idle.wait()
        for client in (self._commands, self._blocking):
            if client is not None:
                await client.aclose()
        self._commands = self._blocking = None

    @contextmanager
    def whole_call(self) -> Iterator[None]:
        """Around a call of several commands: once begun, all of them are let through by `close`."""
        self._check_open()
        self._whole_calls += 1
        try:
            with self._counted():
                yield
        finally:
            self._whole_calls -= 1

    def queue_key(self, queue: str) -> str:
        """The root of a queue's keys, all in one slot (P45)."""
        return f"{self.prefix}:{{{queue}}}"

    def shelf_key(self, shelf: str, name: str) -> str:
        """The root of a kind of records or of a journal; no queue's key has a slash before its tag."""
        return f"{self.prefix}/{shelf}:{{{name}}}"

    def now(self) -> int:
        """The server's clock, reckoned from its last answer."""
        return _monotonic_ms() + self._offset_ms + self.skew_ms

    def learn_now(self, now: int) -> None:
        """Set the reckoning right by an instant that the server (with skew) just told.

        A late answer seems to come from a slow clock: it pulls back by a little only, unless it is so far
        off that the clock must have been set.
        """
        learned = now - self.skew_ms - _monotonic_ms()
        set_back = learned < self._offset_ms - CLOCK_SET_MS
        self._offset_ms = learned if set_back else max(learned, self._offset_ms - 1)

    async def know_queue(self, queue: str) -> None:
        """Put a queue on the list of queues, before its first key is written."""
        if queue not in self._queues:
            await self.command("SADD", f"{self.prefix}:queues", queue)
            self._queues.add(queue)

    async def queues(self) -> list[str]:
        """The list of queues by name."""
        names: set[bytes] = set(await self.command("SMEMBERS", f"{self.prefix}:queues"))
        return sorted(name.decode() for name in names)

    async def run(self, verb: str, root: str, *arguments: Argument) -> Any:
        """Run a verb's script on the keys below `root`; a server that does not know it is told it (P44)."""
        script = load_script(verb)
        async with self._call(self._commands) as client:
            try:
                return await client.evalsha(script.sha, 1, root, self.skew_ms, *arguments)
            except NoScriptError:
                return await client.eval(script.text, 1, root, self.skew_ms, *arguments)

    async def command(self, *parts: Argument) -> Any:
        """Run a single command."""
        async with self._call(self._commands) as client:
            return await client.execute_command(*parts)

    async def read_setting(self, name: str) -> dict[str, str]:
        """A setting of the server by name; StoreError where it does not tell."""
        answer = await self.command("CONFIG", "GET", name)
        pairs = answer.items() if isinstance(answer, dict) else zip(answer[0::2], answer[1::2], strict=True)
        return {key.decode(): value.decode() for key, value in pairs}

    async def pop_hint(self, keys: Sequence[str], timeout_s: float) -> None:
        """Block until one of the lists has an element, and take it; at most `timeout_s`."""
        if self._closing:
            return
        scope = asyncio.timeout(timeout_s + HINT_GRACE_S)
        try:
            async with self._call(self._blocking) as client, scope:
                self._waits.add(scope)
                await client.execute_command("BLPOP", *keys, max(0.001, timeout_s))
        except StoreUnavailable:
            if not self._closing:
                raise
        finally:
            self._waits.discard(scope)

    @asynccontextmanager
    async def _call(self, client: Redis | None) -> AsyncIterator[Any]:
        if not self._whole_calls:
            self._check_open()
        with self._counted():
            try:
                yield client
            except (RedisError, OSError) as error:
                raise translate(error, self.url) from error

    def _check_open(self) -> None:
        if self._commands is None or self._closing:
            raise StoreError("the store is not open: open it first, and do not use it once closed")

    @contextmanager
    def _counted(self) -> Iterator[None]:
        self._under_way += 1
        try:
            yield
        finally:
            self._under_way -= 1
            self._idle.set()

    async def _check_format(self) -> None:
        key = f"{self.prefix}:format"
        await self.command("SET", key, FORMAT, "NX")
        found = int(await self.command("GET", key))
        if found > FORMAT:
            raise StoreError(
                f"the data under prefix {self.prefix!r} has format {found}, written by a newer Redrive "
                f"than this one (format {FORMAT}): upgrade this one"
            )
        if found < FORMAT:
            await self.command("SET", key, FORMAT)


class Room(Protocol):
    """A port's half of the store: it works through one client."""

    @property
    def _client(self) -> Client: ...


R = TypeVar("R", bound=Room)


def whole_call(
    method: Callable[Concatenate[R, P], Awaitable[T]],
) -> Callable[Concatenate[R, P], Coroutine[Any, Any, T]]:
    """Marks a port's method of several commands, which `close` lets end as a whole."""

    @wraps(method)
    async def call(room: R, /, *args: P.args, **kwargs: P.kwargs) -> T:
        with room._client.whole_call():
            return await method(room, *args, **kwargs)

    return call


def _connect(url: str, read_timeout_s: float | None, connections: int) -> Redis:
    try:
        pool = BlockingConnectionPool.from_url(
            url,
            max_connections=connections,
            timeout=COMMAND_TIMEOUT_S,
            socket_timeout=read_timeout_s,
            socket_connect_timeout=CONNECT_TIMEOUT_S,
            retry=Retry(NoBackoff(), 0),
            protocol=2,
        )
    except (TypeError, ValueError):
        # The driver's text may quote a part of the password.
        raise ConfigurationError(
            f"the address {mask_url(url)} cannot be read: write redis://user:password@host:6379/0, "
            "with special characters of the password percent-encoded"
        ) from None
    return Redis.from_pool(pool)


def _monotonic_ms() -> int:
    return time.monotonic_ns() // 1_000_000
