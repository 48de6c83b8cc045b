"""What is special about a Redis server: full memory, lost scripts, rights, durability, a bad address."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from redis.asyncio import Redis

from redrive import Redrive
from redrive.core.condition import Durability
from redrive.core.errors import ConfigurationError, StoreError, StoreFull, StoreUnavailable
from redrive.core.message import Lapse
from redrive.core.settings import RedisSettings
from redrive.stores.redis import RedisStore
from redrive.stores.redis.errors import mask_url
from redrive.stores.redis.examination import judge
from redrive.telemetry.events import Event, StoreAccepting, StoreRefusing
from tests.conformance import makers
from tests.servers import free_port, reserved_port, start_redis
from tests.stores.redis_server import connected, eventually, opened

QUEUE = makers.QUEUE


@pytest.fixture
async def store(url: str) -> AsyncIterator[RedisStore]:
    async with opened(RedisStore(url)) as store:
        yield store


@pytest.fixture
async def server(url: str) -> AsyncIterator[Redis]:
    async with connected(url) as server:
        yield server


async def test_a_full_server_refuses_new_messages_and_lets_the_accepted_ones_drain(
    store: RedisStore, server: Redis
) -> None:
    await makers.submit(store, 4)
    held = await makers.take(store, 2)
    await server.config_set("maxmemory", "1mb")
    with pytest.raises(StoreFull, match="drains"):
        await makers.submit(store)
    lost, done = held
    assert await store.extend([done.lease], 30) == set()
    assert await makers.complete(store, done) == set()
    store.skew_ms += 60_000
    (reclaimed,) = await store.reclaim(QUEUE, makers.new_token(), 30, 100)
    assert (reclaimed.message.id, reclaimed.lapse) == (lost.message.id, Lapse.LOST)
    assert await makers.bury(store, reclaimed) == set()
    assert await makers.complete(store, *await makers.take(store)) == set()
    counts = await makers.counts(store)
    assert (counts.pending, counts.processing, counts.published, counts.dlq) == (0, 0, 3, 1)


async def test_that_the_store_refuses_is_told_once_and_that_it_takes_messages_again_too(
    url: str, server: Redis
) -> None:
    told: list[Event] = []
    async with Redrive(url) as app:
        app.telemetry.add(told.append)
        await app.submit("orders", {})
        await server.config_set("maxmemory", "1mb")
        for _ in range(3):
            with pytest.raises(StoreFull):
                await app.submit("orders", {})
        await server.config_set("maxmemory", "0")
        await app.submit("orders", {})
    about_the_store = [type(event) for event in told if isinstance(event, StoreRefusing | StoreAccepting)]
    assert about_the_store == [StoreRefusing, StoreAccepting]


async def test_a_server_that_has_forgotten_its_scripts_is_told_them_again(
    store: RedisStore, server: Redis
) -> None:
    await makers.submit(store, 2)
    await server.script_flush()
    assert len(await makers.take(store)) == 2


async def test_a_restarted_server_is_found_again_by_the_same_store(tmp_path: Path) -> None:
    first = start_redis(tmp_path)
    async with opened(RedisStore(first.url)) as store:
        (message_id,) = await makers.submit(store)
        first.stop()
        with pytest.raises(StoreUnavailable):
            await makers.take(store)
        second = start_redis(tmp_path, port=first.port)
        try:
            deliveries = await eventually(lambda: makers.take(store))
        finally:
            second.stop()
    assert makers.ids_of(deliveries) == [message_id]


async def test_durability_is_read_from_the_live_server(store: RedisStore, server: Redis) -> None:
    assert (await store.describe()).durability is Durability.B
    await server.config_set("appendfsync", "always")
    assert (await store.describe()).durability is Durability.A
    await server.config_set("appendonly", "no")
    assert (await store.describe()).durability is Durability.C


@pytest.mark.parametrize(
    ("setting", "value", "fix"),
    [
        ("appendonly", "no", "appendonly yes"),
        ("appendfsync", "no", "appendfsync everysec or always"),
        ("maxmemory-policy", "allkeys-lru", "maxmemory-policy noeviction"),
    ],
)
async def test_a_server_that_may_lose_messages_is_refused_unless_that_is_allowed(
    url: str, server: Redis, setting: str, value: str, fix: str
) -> None:
    await server.config_set(setting, value)
    with pytest.raises(StoreError, match="--allow-unsafe") as refusal:
        await RedisStore(url).open()
    assert fix in str(refusal.value)
    async with opened(RedisStore(url, settings=RedisSettings(allow_unsafe=True))) as store:
        await makers.submit(store)
        twin = store.twin()
        await twin.open()
        await twin.close()


async def test_a_server_that_hides_its_settings_but_shows_that_it_evicts_is_refused(
    url: str, server: Redis
) -> None:
    await server.config_set("maxmemory-policy", "allkeys-lru")
    await server.execute_command("ACL", "SETUSER", "limited", "on", ">s3cret", "~*", "+@all", "-config")
    with pytest.raises(StoreError, match="evicts"):
        await RedisStore(url.replace("redis://", "redis://limited:s3cret@")).open()


async def test_a_full_server_lets_a_new_worker_in_to_drain_it(store: RedisStore, server: Redis) -> None:
    await makers.submit(store, 2)
    await server.config_set("maxmemory", "1mb")
    async with opened(store.twin()) as worker:
        assert await makers.complete(worker, *await makers.take(worker)) == set()


async def test_a_server_that_reads_its_data_is_explained_and_waited_for(tmp_path: Path) -> None:
    first = start_redis(tmp_path)
    async with opened(RedisStore(first.url)) as store:
        (message_id,) = await makers.submit(store)
        async with connected(first.url) as server:
            pipeline = server.pipeline(transaction=False)
            for number in range(4_000):
                pipeline.set(f"other:{number}", number)
            await pipeline.execute()
        first.stop()
        starting = asyncio.create_task(
            asyncio.to_thread(start_redis, tmp_path, port=first.port, key_load_delay="400")
        )
        told: set[str] = set()
        try:
            deliveries = await eventually(lambda: makers.take(store), told=told)
        finally:
            (await starting).stop()
    assert makers.ids_of(deliveries) == [message_id]
    assert any("is reading its data" in text for text in told)


async def test_a_server_that_became_a_replica_is_explained_and_used_again_once_it_is_the_master(
    store: RedisStore, server: Redis
) -> None:
    await makers.submit(store)
    await server.replicaof("127.0.0.1", str(free_port()))
    with pytest.raises(StoreUnavailable, match="replica"):
        await makers.submit(store)
    await server.replicaof("NO", "ONE")
    await makers.submit(store)
    assert (await makers.counts(store)).pending == 2


async def test_a_server_that_cannot_write_to_its_disk_is_explained(tmp_path: Path) -> None:
    (folder := tmp_path / "gone").mkdir()
    own = start_redis(folder)
    try:
        async with opened(RedisStore(own.url)) as store, connected(own.url) as server:
            await makers.submit(store)
            await server.config_set("save", "3600 1")
            shutil.rmtree(folder)
            await server.bgsave()
            assert "its log and its free disk" in await _refusal(store)
    finally:
        own.process.kill()
        own.process.wait()


async def _refusal(store: RedisStore) -> str:
    """Why the store refuses a message, as soon as it does."""
    async with asyncio.timeout(10):
        while True:
            try:
                await makers.submit(store)
            except StoreUnavailable as error:
                return str(error)


async def test_a_server_that_misses_its_replicas_is_explained(store: RedisStore, server: Redis) -> None:
    await server.config_set("min-replicas-to-write", 1)
    with pytest.raises(StoreUnavailable, match="fix the replication"):
        await makers.submit(store)


async def test_a_server_that_wants_a_login_says_how_to_give_one(url: str, server: Redis) -> None:
    await server.config_set("requirepass", "s3cret")
    with pytest.raises(StoreError, match="redis://user:password@host") as refusal:
        await RedisStore(url).open()
    assert not isinstance(refusal.value, StoreUnavailable)


async def test_a_server_that_does_not_show_its_settings_is_of_unknown_durability(
    url: str, server: Redis
) -> None:
    await server.execute_command("ACL", "SETUSER", "limited", "on", ">s3cret", "~*", "+@all", "-config")
    address = url.replace("redis://", "redis://limited:s3cret@")
    store = RedisStore(address)
    await store.open()
    description = await store.describe()
    await store.close()
    assert description.durability is Durability.UNKNOWN
    assert "s3cret" not in description.url


async def test_a_wrong_password_is_refused_and_never_shown(url: str, server: Redis) -> None:
    await server.execute_command("ACL", "SETUSER", "default", "on", ">right", "~*", "+@all", "resetpass")
    await server.execute_command("ACL", "SETUSER", "other", "on", ">right", "~*", "+@all")
    store = RedisStore(url.replace("redis://", "redis://other:wr0ng-s3cret@"))
    with pytest.raises(StoreError) as refusal:
        await store.open()
    assert "wr0ng-s3cret" not in str(refusal.value)
    assert not isinstance(refusal.value, StoreUnavailable)


async def test_nobody_at_the_address_is_unavailable_and_the_password_stays_hidden() -> None:
    with reserved_port() as port, pytest.raises(StoreUnavailable) as refusal:
        await RedisStore(f"redis://user:s3cret@127.0.0.1:{port}/0").open()
    assert "s3cret" not in str(refusal.value)


@pytest.mark.parametrize(
    ("settings", "durability"),
    [
        ({}, Durability.UNKNOWN),
        ({"appendonly": "no", "appendfsync": "always"}, Durability.C),
        ({"appendonly": "yes", "appendfsync": "always"}, Durability.A),
        ({"appendonly": "yes", "appendfsync": "everysec"}, Durability.B),
        ({"appendonly": "yes", "appendfsync": "no"}, Durability.C),
        (
            {
                "appendonly": "yes",
                "appendfsync": "always",
                "maxmemory": "100",
                "maxmemory-policy": "allkeys-lru",
            },
            Durability.C,
        ),
    ],
)
def test_the_class_follows_from_the_settings(settings: dict[str, str], durability: Durability) -> None:
    found, meaning = judge(settings)
    assert found is durability
    assert meaning


@pytest.mark.parametrize(
    ("url", "masked"),
    [
        ("redis://localhost:6379/0", "redis://localhost:6379/0"),
        ("redis://:s3cret@localhost:6379/0", "redis://***@localhost:6379/0"),
        ("rediss://user:s3cret@host/1?ssl_cert_reqs=none", "rediss://***@host/1"),
        ("unix:///run/redis.sock?password=s3cret", "unix:///run/redis.sock"),
        ("redis://:s3#cret@host", "redis://***"),
        ("redis://user:s3?cret@host", "redis://***"),
        ("redis://user:12#34@host", "redis://***"),
    ],
)
def test_an_address_is_shown_without_its_secrets(url: str, masked: str) -> None:
    assert mask_url(url) == masked


@pytest.mark.parametrize("prefix", ["", "a b", "a{b", "a*", "x" * 65, "a/b"])
def test_a_prefix_that_is_not_a_name_is_refused(prefix: str) -> None:
    with pytest.raises(ConfigurationError, match="prefix"):
        RedisStore("redis://localhost", prefix=prefix)


async def test_an_address_that_cannot_be_read_is_refused_without_quoting_it() -> None:
    with pytest.raises(ConfigurationError) as refusal:
        await RedisStore("redis://user:s3cret#x@localhost").open()
    assert "s3cret" not in str(refusal.value)


def test_a_missing_driver_says_how_to_install_it() -> None:
    program = "import sys; sys.modules['redis'] = None; import redrive.stores.redis"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert "MissingExtra" in ended.stderr
    assert "pip install 'redrive[redis]'" in ended.stderr
