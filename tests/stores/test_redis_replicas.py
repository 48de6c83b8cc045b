"""wait_replicas: accepted means that a replica has it too; without one the submitter is told the truth."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from redrive.core.errors import StoreUnavailable
from redrive.core.settings import RedisSettings
from redrive.stores.redis import RedisStore
from tests.conformance import makers
from tests.servers import RedisServer, start_redis
from tests.stores.redis_server import connected, eventually, opened

SETTINGS = RedisSettings(wait_replicas=1)


@pytest.fixture
def master(tmp_path: Path) -> Iterator[RedisServer]:
    (folder := tmp_path / "master").mkdir()
    server = start_redis(folder, repl_diskless_sync_delay="0", shutdown_timeout="0")
    yield server
    server.stop()


@pytest.fixture
def replica(tmp_path: Path, master: RedisServer) -> Iterator[RedisServer]:
    (folder := tmp_path / "replica").mkdir()
    server = start_redis(folder, appendonly="no", replicaof=f"127.0.0.1 {master.port}")
    yield server
    server.stop()


async def test_what_was_accepted_is_on_the_replica(master: RedisServer, replica: RedisServer) -> None:
    async with opened(RedisStore(master.url, settings=SETTINGS)) as store:
        entries = [makers.entry(store) for _ in range(2)]
        for one in entries:
            await eventually(partial(makers.append, store, one))
    master.process.kill()
    async with connected(replica.url) as server:
        await server.replicaof("NO", "ONE")
    async with opened(RedisStore(replica.url, settings=RedisSettings(allow_unsafe=True))) as store:
        assert makers.ids_of(await makers.take(store)) == [one.message.id for one in entries]


async def test_without_the_replica_the_submitter_learns_that_it_may_be_lost_and_a_repeat_adds_nothing(
    master: RedisServer,
) -> None:
    async with opened(RedisStore(master.url, settings=SETTINGS)) as store:
        one = makers.entry(store)
        for _ in range(2):
            with pytest.raises(StoreUnavailable, match="0 of 1 replicas"):
                await makers.append(store, one)
        assert (await makers.counts(store)).pending == 1
        assert await makers.complete(store, *await makers.take(store)) == set(), "settling waits for nobody"


async def test_a_repeat_is_confirmed_once_the_replica_is_there(
    master: RedisServer, request: pytest.FixtureRequest
) -> None:
    async with opened(RedisStore(master.url, settings=SETTINGS)) as store:
        one = makers.entry(store)
        with pytest.raises(StoreUnavailable):
            await makers.append(store, one)
        request.getfixturevalue("replica")
        (receipt,) = await eventually(lambda: makers.append(store, one))
        assert receipt.id == one.message.id
        assert (await makers.counts(store)).pending == 1
