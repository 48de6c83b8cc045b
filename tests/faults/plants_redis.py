"""The planted bugs that reach into the Redis store: its scripts' text, and the client that runs them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from redrive.core.lifecycle import State
from redrive.core.message import Entry
from redrive.core.ports import Receipt, Status
from redrive.stores.redis import RedisStore, scripts
from redrive.stores.redis.client import Client
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


def rewrite(name: str, before: str, after: str) -> None:
    """Change the text of one Lua file as this process loads it."""
    loader: Any = scripts
    original = loader.load_lua
    assert before in original(name), f"lua/{name}.lua no longer says {before!r}, the plant is void"

    def load_lua(asked: str) -> str:
        text: str = original(asked)
        return text.replace(before, after) if asked == name else text

    loader.load_lua = load_lua


BUGS = Bugs(RedisStore, wrap_commit, (accept_before_commit,))
