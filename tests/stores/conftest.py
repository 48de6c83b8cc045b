"""For tests of the Redis store: a server of a test's own whose settings it may change, and a store under a
prefix of its own on the server that all tests share."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from redis.asyncio import Redis

from redrive.stores.redis import RedisStore
from tests.servers import start_redis
from tests.stores.redis_server import connected, opened


@pytest.fixture
async def url(tmp_path: Path) -> AsyncIterator[str]:
    """A server of this test's own."""
    server = start_redis(tmp_path)
    yield server.url
    server.stop()


@pytest.fixture
async def server(url: str) -> AsyncIterator[Redis]:
    """A plain client of that server."""
    async with connected(url) as client:
        yield client


@pytest.fixture
def prefix() -> str:
    return f"test:{uuid.uuid4().hex[:12]}"


@pytest.fixture
async def store(redis_url: str, prefix: str) -> AsyncIterator[RedisStore]:
    """A store on the shared server."""
    async with opened(RedisStore(redis_url, prefix=prefix)) as store:
        yield store
