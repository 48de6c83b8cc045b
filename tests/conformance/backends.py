"""The stores under test: each backend opens stores on one set of data and can damage a record.

A new store joins the suite by one more class here and one more name in `BACKENDS`. The virtual clock is
each store's `skew_ms`; `Backend.advance` moves it on every store that was opened here.
"""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import pytest

from redrive.core.settings import FinishedSettings
from redrive.core.store import Store

if TYPE_CHECKING:
    from redis.asyncio import Redis

BACKENDS = ("sqlite", "redis", "valkey", "cluster")
GARBAGE = b"\xc1 not a record"


class Backend(Protocol):
    """What the suite needs of an engine."""

    def make_store(self, finished: FinishedSettings) -> Store: ...

    async def corrupt(self, message_id: str) -> None: ...

    async def lose_body(self, message_id: str) -> None: ...

    async def clear(self) -> None:
        """Remove everything, after looking whether something lies there that should not."""
        ...


def make_backend(name: str, request: pytest.FixtureRequest, folder: Path) -> Backend:
    """A backend by its name, on the session's server, with data of its own."""
    if name == "sqlite":
        return SqliteBackend(folder)
    if name == "cluster":
        return RedisBackend(*(server.url for server in request.getfixturevalue("redis_cluster").servers))
    return RedisBackend(request.getfixturevalue(f"{name}_url"))


class SqliteBackend:
    """One file in the test's own folder."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "redrive.db"

    def make_store(self, finished: FinishedSettings) -> Store:
        from redrive.stores.sqlite import SqliteStore

        return SqliteStore(self._path, finished=finished)

    async def corrupt(self, message_id: str) -> None:
        spoil = (
            "UPDATE bodies SET headers = CAST(? AS TEXT)"
            " WHERE seq = (SELECT seq FROM messages WHERE id = ?) RETURNING seq"
        )
        self._damage(spoil, GARBAGE, message_id)

    async def lose_body(self, message_id: str) -> None:
        lose = "DELETE FROM bodies WHERE seq = (SELECT seq FROM messages WHERE id = ?) RETURNING seq"
        self._damage(lose, message_id)

    async def clear(self) -> None:
        """The folder goes with the test."""

    def _damage(self, statement: str, *bindings: str | bytes) -> None:
        import apsw

        connection = apsw.Connection(str(self._path))
        connection.set_busy_timeout(5_000)
        damaged = connection.execute(statement, bindings).fetchall()
        connection.close()
        assert damaged, f"no message {bindings[-1]!r} to damage"


class RedisBackend:
    """One key prefix on the session's server, or on the masters of its cluster."""

    def __init__(self, *urls: str) -> None:
        self._urls: Sequence[str] = urls
        self._prefix = f"test:{uuid.uuid4().hex[:12]}"

    def make_store(self, finished: FinishedSettings) -> Store:
        from redrive.stores.redis import RedisStore

        return RedisStore(self._urls[0], prefix=self._prefix, finished=finished)

    async def corrupt(self, message_id: str) -> None:
        await self._damage("HSET", message_id, GARBAGE)

    async def lose_body(self, message_id: str) -> None:
        await self._damage("HDEL", message_id)

    async def clear(self) -> None:
        from tests.conformance.redis_keys import check_key

        async for server, key in self._keys():
            await check_key(server, key, self._prefix.encode())
            await server.delete(key)

    async def _damage(self, command: str, message_id: str, *more: bytes) -> None:
        from redrive.stores.redis.frames import pack_id

        raw, damaged = pack_id(message_id), False
        async for server, key in self._keys():
            content = key.endswith((b":messages", b":letters", b":finished"))
            if content and await server.hexists(key, raw):
                await server.execute_command(command, key, raw, *more)
                damaged = True
        assert damaged, f"no message {message_id} to damage"

    async def _keys(self) -> AsyncIterator[tuple[Redis, bytes]]:
        """Every key under the prefix, with the server that has it."""
        for url in self._urls:
            async with _connected(url) as server:
                async for key in server.scan_iter(f"{self._prefix}[:/]*", count=1_000):
                    yield server, key


@asynccontextmanager
async def _connected(url: str) -> AsyncIterator[Redis]:
    from redis.asyncio import Redis

    client = Redis.from_url(url)
    try:
        yield client
    finally:
        await client.aclose()


class Bench:
    """A backend with the stores that a test opened on it, and their common clock."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._opened: list[Store] = []
        self._skew_ms = 0

    async def open_store(self, finished: FinishedSettings | None = None) -> Store:
        store = self._backend.make_store(finished or FinishedSettings())
        return await self.adopt(store)

    async def adopt(self, store: Store) -> Store:
        """Open a store and let it follow the clock; it is closed at the end of the test."""
        store.skew_ms = self._skew_ms
        await store.open()
        self._opened.append(store)
        return store

    def advance(self, seconds: float) -> None:
        """Move the clock of every store opened here."""
        self._skew_ms += round(seconds * 1000)
        for store in self._opened:
            store.skew_ms = self._skew_ms

    def begin(self, period_s: float) -> None:
        """Move the clock to the beginning of the next minute or hour: what is counted by it stays within."""
        period_ms = round(period_s * 1000)
        self.advance((period_ms - self._opened[0].now() % period_ms) / 1000 + 1)

    async def corrupt(self, message_id: str) -> None:
        """Make the record of a message unreadable, behind the store's back."""
        await self._backend.corrupt(message_id)

    async def lose_body(self, message_id: str) -> None:
        """Remove the body of a message, behind the store's back."""
        await self._backend.lose_body(message_id)

    async def close_store(self, store: Store) -> None:
        """Close one store before the others."""
        self._opened.remove(store)
        await store.close()

    async def close(self) -> None:
        while self._opened:
            await self._opened.pop().close()

    async def end(self) -> None:
        """Close what is open, and leave nothing behind."""
        await self.close()
        await self._backend.clear()
