"""What the ports work through: runs scripts, knows the keys, keeps the clock, translates errors.

A call that the server did not answer fails at once with StoreUnavailable and is repeated by its caller, with
growing pauses, under the same ids; the next call connects anew. Whoever waits for a hint is woken by `close`.
"""

from __future__ import annotations

import asyncio
import math
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from redis.exceptions import NoScriptError, RedisError

from redrive.core.errors import ConfigurationError, StoreError, StoreFull, StoreUnavailable
from redrive.core.settings import RedisSettings
from redrive.stores.redis.errors import translate
from redrive.stores.redis.memory import Watermark
from redrive.stores.redis.nodes import Node, Nodes
from redrive.stores.redis.pipe import Argument
from redrive.stores.redis.scripts import load_script
from redrive.stores.redis.sender import Sender

__all__ = ["FORMAT", "Argument", "Client", "to_ms", "whole_call"]

FORMAT = 4
HINT_GRACE_S = 5.0
_STALL_S = 1.0
CLOCK_SET_MS = 5_000
LISTED_S = 2.0
RELIST_S = 6.0

_PREFIX = re.compile(r"[A-Za-z0-9._:-]{1,64}", re.ASCII)
_ACCEPTING = frozenset({"append", "bury"})

P = ParamSpec("P")
T = TypeVar("T")


class Client:
    """One address and prefix; opened once, used from one event loop, closed once."""

    def __init__(
        self, url: str, prefix: str, settings: RedisSettings | None = None, *, cluster: bool | None = None
    ) -> None:
        if not _PREFIX.fullmatch(prefix):
            raise ConfigurationError(f"prefix {prefix!r} is not a name: use 1-64 of A-Z a-z 0-9 . _ : -")
        self.url, self.prefix, self.skew_ms = url, prefix, 0
        self.settings, self.cluster = settings or RedisSettings(), cluster
        self.nodes = Nodes(url, cluster)
        self._sender = Sender(self.nodes, self.settings.wait_replicas)
        self._watermark = Watermark(self.settings.watermark)
        self._offset_ms = time.time_ns() // 1_000_000 - _monotonic_ms()
        self._opened = self._closing = False
        self._under_way = self._whole_calls = 0
        self._idle = asyncio.Event()
        self._waits: set[asyncio.Timeout] = set()
        self._listed_s: dict[str, float] = {}
        self._looked_s: dict[str, float] = {}

    async def open(self, check: Callable[[], Awaitable[None]] | None = None) -> None:
        """Connect, let `check` refuse the server, and look whether the data is of a format known here."""
        if self._opened:
            raise StoreError("the store is open already: open it once, or take a twin")
        self.nodes.connect()
        self._opened, self._closing = True, False
        try:
            with self._translated():
                await self.nodes.greet()
            if check is not None:
                await check()
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
        await self.nodes.close()
        self._opened = False

    def abandon(self) -> None:
        """Let go of the connections, whose event loop is closed; sockets close as they are collected."""
        self.nodes.forget()
        self._opened = False

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
        """The root of a queue's keys, all in one slot."""
        return f"{self.prefix}:{{{queue}}}"

    def shelf_key(self, shelf: str, name: str) -> str:
        """The root of a kind of records or of a journal; no queue's key has a slash before its tag."""
        return f"{self.prefix}/{shelf}:{{{name}}}"

    def now(self) -> int:
        """The server's clock, reckoned from its last answer."""
        return time.monotonic_ns() // 1_000_000 + self._offset_ms + self.skew_ms

    def learn_now(self, now: int) -> None:
        """Set the reckoning right by an instant that the server (with skew) just told.

        A late answer seems to come from a slow clock: it pulls back by a little only, unless it is so far
        off that the clock must have been set.
        """
        learned = now - self.skew_ms - _monotonic_ms()
        set_back = learned < self._offset_ms - CLOCK_SET_MS
        self._offset_ms = learned if set_back else max(learned, self._offset_ms - 1)

    async def list_queue(self, queue: str) -> None:
        """Put a queue on the list of queues, before its first key is written."""
        await self.command("SADD", f"{self.prefix}:queues", queue)
        self._listed_s[queue] = time.monotonic()

    @asynccontextmanager
    async def listed(self, queue: str) -> AsyncIterator[None]:
        """Around a write that may make a queue. It is listed again afterwards: whoever deleted the queue just
        before that write may have taken it from the list since. `unlist_queue` is the other half."""
        await self.list_queue(queue)
        yield
        with suppress(StoreFull):
            await self.list_queue(queue)

    async def unlist_queue(self, queue: str) -> None:
        """Take a queue that was deleted from the list, unless it has been made anew meanwhile."""
        self._listed_s.pop(queue, None)
        await self.command("SREM", f"{self.prefix}:queues", queue)
        if await self.command("EXISTS", self.queue_key(queue)):
            await self.list_queue(queue)

    def is_listed(self, queue: str) -> bool:
        """Whether the list was lately seen to name a queue; soon forgotten, as a server may lose it."""
        return time.monotonic() - self._listed_s.get(queue, -math.inf) < LISTED_S

    async def relist_queue(self, queue: str) -> None:
        """Put a queue that is there back on a list that has lost it; a full server must not mind."""
        looked_s = max(self._looked_s.get(queue, -math.inf), self._listed_s.get(queue, -math.inf))
        if time.monotonic() - looked_s < RELIST_S:
            return
        exists = await self.command("EXISTS", self.queue_key(queue))
        if exists and not await self.command("SISMEMBER", f"{self.prefix}:queues", queue):
            with suppress(StoreFull):
                await self.list_queue(queue)
        self._looked_s[queue] = time.monotonic()

    async def queues(self) -> list[str]:
        """The list of queues by name."""
        members: set[bytes] = set(await self.command("SMEMBERS", f"{self.prefix}:queues"))
        names = sorted(member.decode() for member in members)
        self._listed_s |= dict.fromkeys(names, time.monotonic())
        return names

    async def run(self, verb: str, root: str, *arguments: Argument) -> Any:
        """Run a verb's script on the keys below `root`; a server that does not know it is told it."""
        script, accepts = load_script(verb), verb in _ACCEPTING
        tail = (*self._keys(root), self.skew_ms, *arguments)
        with self._call():
            if accepts:
                await self._watermark.check(await self.nodes.find(root))
            try:
                return await self._sender.run(root, "EVALSHA", script.sha, *tail, accepts=accepts)
            except NoScriptError:
                return await self._sender.run(root, "EVAL", script.text, *tail, accepts=accepts)

    def _keys(self, root: str) -> tuple[Argument, ...]:
        """The key of a script. While its slot is moved key by key, a node that is named one more key, which
        never exists, refuses the script as a whole: it would meet a part of its queue only."""
        return (2, root, f"{root}:moving") if self.nodes.clustered else (1, root)

    async def command(self, *parts: Argument) -> Any:
        """Run a single command; its key, where it has one, is the second part."""
        with self._call():
            return await self._sender.send(str(parts[1]) if len(parts) > 1 else None, *parts)

    async def memory_usage(self, key: str, samples: int) -> int:
        """About how many bytes a key takes; 0 when there is none."""
        with self._call():
            return int(await self._sender.send(key, "MEMORY", "USAGE", key, "SAMPLES", samples) or 0)

    async def each_node(self, ask: Callable[[Node], Awaitable[T]]) -> list[tuple[Node, T]]:
        """What every node that serves keys answers."""
        with self._call():
            return [(node, await ask(node)) for node in await self.nodes.masters()]

    async def pop_hint(self, keys: Sequence[str], timeout_s: float) -> None:
        """Block until one of the lists has an element, and take it; at most `timeout_s`."""
        if self._closing:
            return
        scope = asyncio.timeout(timeout_s + HINT_GRACE_S)
        try:
            with self._call():
                async with scope:
                    self._waits.add(scope)
                    await self._sender.pop_first(keys, max(0.001, timeout_s))
        except StoreUnavailable:
            if _stood_still(scope):
                return
            if not self._closing:
                raise
        finally:
            self._waits.discard(scope)

    @contextmanager
    def _call(self) -> Iterator[None]:
        if not self._whole_calls:
            self._check_open()
        with self._counted(), self._translated():
            yield

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except (RedisError, OSError) as error:
            raise translate(error, self.url) from error

    def _check_open(self) -> None:
        if not self._opened or self._closing:
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
        """Read first: a full server must let a worker in, to drain it."""
        key = f"{self.prefix}:format"
        written = await self.command("GET", key)
        if written is None:
            await self.command("SET", key, FORMAT, "NX")
            written = await self.command("GET", key)
        found = int(written)
        if found > FORMAT:
            raise StoreError(
                f"the data under prefix {self.prefix!r} has format {found}, written by a newer Redrive "
                f"than this one (format {FORMAT}): upgrade this one"
            )
        if found < FORMAT:
            raise StoreError(
                f"the data under prefix {self.prefix!r} has format {found}, of a Redrive from before its "
                f"release (this one has {FORMAT}): drain it with that one, then use another prefix"
            )


class MemoryRoom(Protocol):
    """A port's half of the store: it works through one client."""

    @property
    def _client(self) -> Client: ...


R = TypeVar("R", bound=MemoryRoom)


def whole_call(
    method: Callable[Concatenate[R, P], Awaitable[T]],
) -> Callable[Concatenate[R, P], Coroutine[Any, Any, T]]:
    """Marks a port's method of several commands, which `close` lets end as a whole."""

    @wraps(method)
    async def call(room: R, /, *args: P.args, **kwargs: P.kwargs) -> T:
        with room._client.whole_call():
            return await method(room, *args, **kwargs)

    return call


def _stood_still(scope: asyncio.Timeout) -> bool:
    """Whether this process, or its loop, slept past the end of a wait: it says nothing of the server then."""
    ended_s = scope.when()
    late = ended_s is not None and asyncio.get_running_loop().time() > ended_s + _STALL_S
    return scope.expired() and late


def to_ms(seconds: float) -> int:
    """Whole milliseconds."""
    return round(seconds * 1000)


def _monotonic_ms() -> int:
    return time.monotonic_ns() // 1_000_000
