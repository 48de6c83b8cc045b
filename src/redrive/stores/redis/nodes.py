"""The servers: connections to each, and which of them has a key.

A node has one connection for scripts, some for blocking reads (pipe.py), and a pool for other commands. The
driver never repeats a command by itself; ours are idempotent and their callers repeat them. A connection of
the pool whose command was cancelled is closed by the driver, so that no late reply answers the next command.
Nothing is connected before it is used.

A cluster is found out from the server's greeting unless the address says which it is. The map of slots is
read again when a node says MOVED, fails, or no longer takes writes; until then no call asks for it. Known
weakness: a queue rests while its slot is moved key by key.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.crc import key_slot
from redis.exceptions import AskError, ClusterDownError, MovedError, RedisError, ResponseError

from redrive.core.errors import ConfigurationError, StoreError
from redrive.stores.redis.errors import mask_url
from redrive.stores.redis.pipe import Argument, BlockingReads, Pipe

COMMAND_TIMEOUT_S = 5.0
CONNECT_TIMEOUT_S = 5.0
POOL_TIMEOUT_S = 30.0
CONNECTIONS = 16
_SLOTS = 16_384
_OLDEST = (7, 0)


@dataclass(frozen=True, slots=True)
class Node:
    """One server; `address` never holds a secret."""

    address: str
    commands: Redis
    blocking: BlockingReads
    scripts: Pipe

    async def ask(self, *parts: Argument) -> Any:
        """Run a single command here, whichever node has its key."""
        return await self.commands.execute_command(*parts)  # type: ignore[no-untyped-call]

    async def close(self) -> None:
        await self.scripts.close()
        await self.blocking.close()
        await self.commands.aclose()

    async def forget_idle(self) -> None:
        """Connect anew from now on: the name may stand for another server since."""
        await self.blocking.close()
        await self.commands.connection_pool.disconnect(inuse_connections=False)


def make_node(url: str) -> Node:
    """A server by its address, not yet connected."""
    commands = _connect(url)
    return Node(
        mask_url(url),
        commands,
        BlockingReads(commands.connection_pool),
        Pipe(commands.connection_pool, COMMAND_TIMEOUT_S),
    )


def move_url(url: str, host: str, port: int) -> str:
    """The same address, login and options on another server."""
    parts = urlsplit(url)
    login, mark, _ = parts.netloc.rpartition("@")
    name = f"[{host}]" if ":" in host else host
    return urlunsplit(parts._replace(netloc=f"{login}{mark}{name}:{port}"))


async def run_together(client: Redis, *commands: Sequence[Any]) -> list[Any]:
    """Several commands on one connection; the first error is raised as the server said it."""
    pipeline = client.pipeline(transaction=False)
    for command in commands:
        pipeline.execute_command(*command)
    answers: list[Any] = await pipeline.execute(raise_on_error=False)
    for answer in answers:
        if isinstance(answer, Exception):
            raise answer
    return answers


def _connect(url: str) -> Redis:
    try:
        pool = BlockingConnectionPool.from_url(
            url,
            max_connections=CONNECTIONS,
            timeout=POOL_TIMEOUT_S,
            socket_timeout=COMMAND_TIMEOUT_S,
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


class Nodes:
    """Every node that is known, and the one to ask for a key."""

    def __init__(self, url: str, cluster: bool | None = None) -> None:
        self._url = url
        self.clustered = bool(cluster)
        self._told = cluster is not None
        self._known: dict[tuple[str, int], Node] = {}
        self._first: Node | None = None
        self._slots: list[Node | None] = [None] * _SLOTS
        self._stale = True
        self._reading = asyncio.Lock()

    @property
    def first(self) -> Node:
        """The node that the address names."""
        if self._first is None:
            raise StoreError("the store is not open: open it first, and do not use it once closed")
        return self._first

    def connect(self) -> None:
        """Make the first node; it is not yet asked anything."""
        self._first = make_node(self._url)
        self._known[_place(self._url)] = self._first
        self._stale = True

    async def greet(self) -> None:
        """Learn whether it is a cluster, and refuse a server that is too old for our scripts."""
        try:
            answer = await self.first.ask("HELLO", 2)
        except ResponseError:
            return
        greeting = dict(zip(answer[0::2], answer[1::2], strict=True))
        version = greeting.get(b"version", b"7.0").decode()
        if tuple(map(int, version.split(".")[:2])) < _OLDEST:
            raise StoreError(f"{self.first.address} is version {version}: Redrive needs Redis 7.0 or Valkey")
        if not self._told:
            self.clustered = greeting.get(b"mode") == b"cluster"

    async def close(self) -> None:
        for node in self.forget():
            await node.close()

    def forget(self) -> list[Node]:
        """Know no node any more; those that were known, for whoever closes them."""
        known, self._known = list(self._known.values()), {}
        self._first, self._slots = None, [None] * _SLOTS
        return known

    async def find(self, key: str | None) -> Node:
        """The node that serves a key; without a key, any."""
        if not self.clustered:
            return self.first
        if self._stale:
            await self._read_slots()
        node = self._slots[0 if key is None else key_slot(key.encode())]
        if node is None:
            self._stale = True
            raise ClusterDownError("CLUSTERDOWN a slot is served by no node")
        return node

    async def masters(self) -> list[Node]:
        """Every node that serves a slot."""
        if not self.clustered:
            return [self.first]
        if self._stale:
            await self._read_slots()
        return list(dict.fromkeys(node for node in self._slots if node is not None))

    def by_slot(self, keys: Sequence[str]) -> list[list[str]]:
        """The keys in groups that one command may name together."""
        if not self.clustered:
            return [list(keys)]
        groups: dict[int, list[str]] = {}
        for key in keys:
            groups.setdefault(key_slot(key.encode()), []).append(key)
        return list(groups.values())

    def follow(self, error: AskError | MovedError, node: Node) -> Node:
        """The node that a redirection names; one that has moved for good makes the map stale."""
        if isinstance(error, MovedError):
            self.clustered, self._stale = True, True
        named = str(error.host)
        host = named or urlsplit(node.address).hostname or ""
        found = self._at(host, int(error.port))
        if isinstance(error, MovedError):
            self._slots[int(error.slot_id)] = found
        return found

    async def doubt(self, node: Node) -> None:
        """A node failed or takes no writes: read the map again, and resolve its name again."""
        self._stale = True
        await node.forget_idle()

    def _at(self, host: str, port: int) -> Node:
        if (host, port) not in self._known:
            self._known[host, port] = make_node(move_url(self._url, host, port))
        return self._known[host, port]

    async def _read_slots(self) -> None:
        async with self._reading:
            if not self._stale:
                return
            failure: RedisError | OSError = ClusterDownError("CLUSTERDOWN no node of the cluster is known")
            for node in list(self._known.values()):
                try:
                    self._learn(await node.ask("CLUSTER", "SLOTS"), node)
                except (RedisError, OSError) as error:
                    failure = error
                else:
                    self._stale = False
                    return
            raise failure

    def _learn(self, ranges: list[Any], teller: Node) -> None:
        slots: list[Node | None] = [None] * _SLOTS
        for first, last, master, *_ in ranges:
            host = (master[0] or b"").decode() or urlsplit(teller.address).hostname or ""
            slots[first : last + 1] = [self._at(host, master[1])] * (last + 1 - first)
        self._slots = slots


def _place(url: str) -> tuple[str, int]:
    parts = urlsplit(url)
    return parts.hostname or "localhost", parts.port or 6379
