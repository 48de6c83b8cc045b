"""Where tests run, and fixtures that every room may use: the servers, started once a session when a test
first asks."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from tests.brokers.server import RabbitServer, start_rabbitmq
from tests.servers import RedisCluster, start_cluster, start_redis, start_valkey

MEMORY = Path("/dev/shm")  # noqa: S108 - pytest makes a private folder in it
ROOM = 4 * 1024**3


settings.load_profile("ci")
"""Hypothesis' own: the same examples in every run, each for as long as it takes. Chance has `long` runs."""


def pytest_configure() -> None:
    """Temporary folders are in memory, where there is room for them: no sync waits for a disk there."""
    if os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free >= ROOM:
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))


@pytest.fixture(scope="session", autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What is kept in the user's cache folder is kept in a folder of the tests, also by their processes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="session")
def redis_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a Redis server of our own; a test takes a prefix of its own on it."""
    server = start_redis(tmp_path_factory.mktemp("redis"))
    yield server.url
    server.stop()


@pytest.fixture(scope="session")
def valkey_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The same of a Valkey server."""
    server = start_valkey(tmp_path_factory.mktemp("valkey"))
    yield server.url
    server.stop()


@pytest.fixture(scope="session")
def redis_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisCluster]:
    """Three masters of our own."""
    cluster = start_cluster(tmp_path_factory.mktemp("cluster"))
    yield cluster
    cluster.stop()


@pytest.fixture(scope="session")
def rabbitmq(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RabbitServer]:
    """A RabbitMQ of our own with the management API; a test takes a virtual host of its own on it."""
    server = start_rabbitmq(tmp_path_factory.mktemp("rabbitmq"), management=True)
    yield server
    server.kill()  # nothing of it is needed any more, and an orderly end takes seconds
    server.stop()
