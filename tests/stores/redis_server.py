"""A server of one test's own, whose settings it may change, and a plain client of it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

from redis.asyncio import Redis

from redrive.core.errors import StoreUnavailable
from redrive.core.store import Store
from tests.waiting import wait_until

T = TypeVar("T")
OpenStore = TypeVar("OpenStore", bound=Store)


@asynccontextmanager
async def connected(url: str) -> AsyncIterator[Redis]:
    """A plain client, as an operator would use it."""
    client = Redis.from_url(url)
    try:
        yield client
    finally:
        await client.aclose()


@asynccontextmanager
async def opened(store: OpenStore) -> AsyncIterator[OpenStore]:
    """The store, open while inside."""
    await store.open()
    try:
        yield store
    finally:
        await store.close()


async def eventually(
    call: Callable[[], Awaitable[T]], *, patience_s: float = 10.0, told: set[str] | None = None
) -> T:
    """What the call answers once the store can be reached; `told` gathers what was said before."""
    answers: list[T] = []

    async def answered() -> bool:
        try:
            answers.append(await call())
        except StoreUnavailable as error:
            if told is not None:
                told.add(str(error))
        return bool(answers)

    await wait_until(answered, patience_s, "the store answers")
    return answers[0]
