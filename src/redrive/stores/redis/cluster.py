"""Which node has a key: one server, or the masters of a cluster by slot.

A cluster is found out from the server's greeting unless the address says which it is. The map of slots is
read again when a node says MOVED, fails, or no longer takes writes; until then no call asks for it. Known
weakness: a queue rests while its slot is moved key by key.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

from redis.crc import key_slot
from redis.exceptions import AskError, ClusterDownError, MovedError, RedisError, ResponseError

from redrive.core.errors import StoreError
from redrive.stores.redis.connections import Node, make_node, move_url

_SLOTS = 16_384
_OLDEST = (7, 0)


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
