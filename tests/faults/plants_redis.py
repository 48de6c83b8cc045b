"""The planted bugs that reach into the Redis store: its scripts' text, and the client that runs them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from redrive.core.lifecycle import State
from redrive.core.message import Entry
from redrive.core.ports import Receipt, Status
from redrive.stores.redis import RedisStore, scripts
from redrive.stores.redis.client import Client
from redrive.stores.redis.frames import digest_of, pack_id
from tests.faults.plants import Bugs, Fire, replace_method, wrap


def wrap_commit(moment: str, fire: Fire) -> None:
    """Fire before or after each script: a script is what is written as a whole."""
    wrap(Client, "run", moment, fire)


def accept_before_commit() -> None:
    """The submitter hears `accepted` before the server does."""
    original = RedisStore.append
    under_way: set[asyncio.Task[Any]] = set()

    async def append_later(self: RedisStore, groups: Sequence[Sequence[Entry]]) -> list[list[Receipt]]:
        task = asyncio.create_task(original(self, groups))
        under_way.add(task)
        return [
            [Receipt(entry.message.id, State.WAITING, Status.ACCEPTED) for entry in group] for group in groups
        ]

    replace_method(RedisStore, "append", append_later)


def settle_without_token() -> None:
    """A settle moves the message whoever holds it."""
    _rewrite("parts/lease", "if holder ~= token then", "if false then")


def count_attempt_late() -> None:
    """The attempt of a message that was tried before is counted when it ends, not when it is handed out."""
    _rewrite("claim", "item.state, item.attempts = 'claimed', item.attempts + 1", "item.state = 'claimed'")
    _rewrite(
        "settle",
        "item.due_at, item.crashes = settlement.due_at, 0",
        "item.due_at, item.crashes = settlement.due_at, 0\n"
        "  item.attempts = item.attempts + (item.tried and 1 or 0)",
    )


def dedupe_key_first() -> None:
    """The dedupe key is written in a step of its own, before the message."""
    original = RedisStore.append

    async def key_then_message(self: RedisStore, groups: Sequence[Sequence[Entry]]) -> list[list[Receipt]]:
        for entry in (entry for group in groups for entry in group):
            message = entry.message
            field = f"{message.tenant}\0{message.dedupe}".encode()
            value = digest_of(entry) + pack_id(message.id)
            await self._client.command(
                "HSETNX", f"{self._client.queue_key(message.queue)}:keys", field, value
            )
        plain = [
            [replace(entry, message=replace(entry.message, dedupe=None)) for entry in group]
            for group in groups
        ]
        return await original(self, plain)

    replace_method(RedisStore, "append", key_then_message)


def reclaim_live_leases() -> None:
    """A sweep takes over whatever is claimed, as if all other workers were dead."""
    _rewrite("reclaim", "root .. ':leases', '-inf', now,", "root .. ':leases', '-inf', '+inf',")


def _rewrite(name: str, before: str, after: str) -> None:
    """Change the text of one Lua file as this process loads it."""
    loader: Any = scripts
    original = loader.load_lua
    assert before in original(name), f"lua/{name}.lua no longer says {before!r}, the plant is void"

    def load_lua(asked: str) -> str:
        text: str = original(asked)
        return text.replace(before, after) if asked == name else text

    loader.load_lua = load_lua


BUGS = Bugs(
    RedisStore,
    wrap_commit,
    (
        settle_without_token,
        count_attempt_late,
        accept_before_commit,
        dedupe_key_first,
        reclaim_live_leases,
    ),
)
