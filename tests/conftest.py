"""Fixtures that every room may use: the servers, started once a session when a test first asks."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.servers import start_redis


@pytest.fixture(scope="session")
def redis_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a Redis server of our own; a test takes a prefix of its own on it."""
    server = start_redis(tmp_path_factory.mktemp("redis"))
    yield server.url
    server.stop()
