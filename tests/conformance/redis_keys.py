"""Whether a key may lie in Redis: the layout knows it, it is of the type that is written there, and what is
not meant to stay ends by itself."""

from __future__ import annotations

from functools import cache

from redis.asyncio import Redis

from redrive.stores.redis.scripts import Key, read_layout

_layout = cache(read_layout)


async def check_key(server: Redis, key: bytes, prefix: bytes) -> None:
    """Fail for a key that no row of the layout explains."""
    name = key.removeprefix(prefix).decode("utf-8", "replace")
    kind = (await server.type(key)).decode()
    rows = [row for row in _layout() if row.kind == kind and row.matches(name)]
    assert rows, f"{kind} {name} is in no row of the layout: document it at the head of lua/parts/root.lua"
    ends = await server.pttl(key) >= 0
    assert any(_fits(row, ends) for row in rows), f"{kind} {name} {'ends' if ends else 'never ends'}"


def _fits(row: Key, ends: bool) -> bool:
    return row.may_expire if ends else not row.must_expire
