"""A real cluster of three masters: queues in slots of their own, redirections, a node that goes and comes."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from redis.crc import key_slot

from redrive.config import Settings
from redrive.core.condition import Durability, Grade
from redrive.core.errors import StoreUnavailable
from redrive.core.message import Delivery
from redrive.stores.redis import RedisStore
from redrive.wiring import make_store
from tests.conformance import makers
from tests.servers import RedisCluster, ask, bus_port, join, start_cluster, start_node
from tests.stores.redis_server import connected, eventually, opened
from tests.waiting import wait_until

QUEUES = tuple(f"queue{number}" for number in range(9))


@pytest.fixture
async def store(redis_cluster: RedisCluster) -> AsyncIterator[RedisStore]:
    async with opened(RedisStore(redis_cluster.url, prefix=f"cluster:{uuid.uuid4().hex[:12]}")) as store:
        yield store


@pytest.fixture(scope="module")
def own_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisCluster]:
    """One whose slots are moved; each test has queues of its own."""
    cluster = start_cluster(tmp_path_factory.mktemp("moving"))
    yield cluster
    cluster.stop()


@pytest.fixture
def stopped() -> Iterator[ExitStack]:
    """What was started goes with the test, also when it fails."""
    with ExitStack() as stack:
        yield stack


def index_of(queue: str) -> int:
    """Which of the three masters has a queue at first."""
    return next(n for n in range(3) if key_slot(queue.encode()) < (n + 1) * 16_384 // 3)


async def test_queues_on_all_nodes_live_in_one_store(store: RedisStore) -> None:
    for queue in QUEUES:
        await makers.submit(store, 2, queue=queue)
    assert {index_of(queue) for queue in QUEUES} == {0, 1, 2}
    assert await store.queue_names() == sorted(QUEUES)
    taken = [one for queue in QUEUES for one in await makers.take(store, queue=queue)]
    assert await makers.complete(store, *taken) == set()
    assert [counts.published for counts in await store.queues()] == [2] * len(QUEUES)


async def test_new_work_of_any_queue_wakes_the_waiting(store: RedisStore) -> None:
    for queue in ("queue0", "queue5", "queue8"):
        waiting = asyncio.create_task(store.wait(QUEUES, 60))
        await makers.submit(store, queue=queue)
        async with asyncio.timeout(5):
            await waiting
        await makers.take(store, queue=queue)


async def test_waiting_on_several_nodes_ends_at_its_timeout(store: RedisStore) -> None:
    async with asyncio.timeout(5):
        await store.wait(QUEUES, 0.05)


async def test_closing_wakes_those_who_wait_on_several_nodes(redis_cluster: RedisCluster) -> None:
    store = RedisStore(redis_cluster.url, prefix=f"cluster:{uuid.uuid4().hex[:12]}")
    await store.open()
    waiting = asyncio.create_task(store.wait(QUEUES, 60))
    await asyncio.sleep(0)
    async with asyncio.timeout(5):
        await store.close()
        await waiting


async def test_every_node_is_examined_and_the_weakest_gives_the_class(
    store: RedisStore, redis_cluster: RedisCluster
) -> None:
    assert (await store.describe()).durability is Durability.B
    async with connected(redis_cluster.servers[2].url) as server:
        await server.config_set("appendonly", "no")
        assert (await store.describe()).durability is Durability.C
        wrong = [finding for finding in await store.examine() if finding.grade is Grade.WRONG]
        await server.config_set("appendonly", "yes")
    port = str(redis_cluster.servers[2].port)
    assert {finding.subject.partition(" of ")[0] for finding in wrong} == {"durability", "appendonly"}
    assert all(port in finding.subject for finding in wrong)


async def test_a_queue_whose_slot_has_moved_to_another_node_is_found_there(own_cluster: RedisCluster) -> None:
    async with opened(RedisStore(own_cluster.url)) as store:
        await makers.submit(store, 3, queue="moved")
        begin_move(own_cluster, "moved")
        await move_keys(own_cluster, "moved", 1_000)
        end_move(own_cluster, "moved")
        await makers.submit(store, queue="moved")
        assert len(await makers.take(store, queue="moved")) == 4


@pytest.mark.parametrize("moved", [0, 1, 2, 3, 5, 8])
async def test_a_queue_rests_while_its_slot_is_moved_key_by_key_and_nothing_of_it_is_lost(
    own_cluster: RedisCluster, moved: int
) -> None:
    queue = QUEUES[moved]
    async with opened(RedisStore(own_cluster.url)) as store:
        await makers.submit(store, 3, queue=queue, tenant="acme")
        begin_move(own_cluster, queue)
        await move_keys(own_cluster, queue, moved)
        with pytest.raises(StoreUnavailable, match="being moved"):
            await makers.submit(store, queue=queue, tenant="another")
        with pytest.raises(StoreUnavailable, match="being moved"):
            await makers.take(store, queue=queue)
        await move_keys(own_cluster, queue, 1_000)
        end_move(own_cluster, queue)
        taken = await makers.take(store, queue=queue)
        assert [delivery.message.tenant for delivery in taken] == ["acme"] * 3
        assert all(delivery.unreadable is None for delivery in taken)


async def test_a_node_that_goes_stops_its_own_queues_only_until_it_is_back(
    tmp_path: Path, stopped: ExitStack
) -> None:
    cluster = start_cluster(tmp_path)
    stopped.callback(cluster.stop)
    for server in cluster.servers:
        ask(server.port, "CONFIG", "SET", "cluster-require-full-coverage", "no")
    lost, bus = cluster.servers[1], bus_port(cluster.servers[1])
    async with opened(RedisStore(cluster.url)) as store:
        for queue in QUEUES:
            await makers.submit(store, queue=queue)
        lost.stop()
        for queue in (one for one in QUEUES if index_of(one) == 1):
            with pytest.raises(StoreUnavailable):
                await makers.take(store, queue=queue)
        for queue in (one for one in QUEUES if index_of(one) != 1):
            assert len(await take_eventually(store, queue)) == 1
        stopped.callback(start_node(tmp_path / "1", port=lost.port, bus=bus).stop)
        for queue in (one for one in QUEUES if index_of(one) == 1):
            assert len(await take_eventually(store, queue)) == 1


async def test_the_queues_of_a_node_that_dies_are_found_on_its_replica(
    tmp_path: Path, stopped: ExitStack
) -> None:
    cluster = start_cluster(tmp_path)
    stopped.callback(cluster.stop)
    replica = start_node(tmp_path / "replica")
    stopped.callback(replica.stop)
    join(replica, cluster)
    lost, queue = cluster.servers[1], next(one for one in QUEUES if index_of(one) == 1)
    async with opened(RedisStore(cluster.url)) as store:
        await makers.submit(store, queue=queue)
        await wait_until(
            lambda: ask(replica.port, "CLUSTER", "REPLICATE", node_id(cluster, 1)) == b"+OK\r\n",
            20,
            "the node has come to know its master",
        )
        await wait_until(
            lambda: b"master_link_status:up" in ask(replica.port, "INFO", "replication"), 20, "it follows it"
        )
        lost.process.kill()
        lost.process.wait()
        ask(replica.port, "CLUSTER", "FAILOVER", "TAKEOVER")
        assert len(await take_eventually(store, queue)) == 1


async def test_a_store_that_takes_a_cluster_for_one_server_learns_better(redis_cluster: RedisCluster) -> None:
    prefix = f"cluster:{uuid.uuid4().hex[:12]}"
    async with opened(RedisStore(redis_cluster.url, prefix=prefix, cluster=False)) as store:
        for queue in QUEUES:
            await makers.submit(store, queue=queue)
        await store.wait(QUEUES, 0.01)
        assert [counts.pending for counts in await store.queues()] == [1] * len(QUEUES)


async def take_eventually(store: RedisStore, queue: str) -> list[Delivery]:
    return await eventually(lambda: makers.take(store, queue=queue))


async def test_an_address_may_say_that_it_is_a_cluster(redis_cluster: RedisCluster) -> None:
    store = make_store(Settings(store=f"{redis_cluster.url}?prefix=told&cluster=true"))
    await store.open()
    for queue in QUEUES:
        await makers.submit(store, queue=queue)
    assert await store.queue_names() == sorted(QUEUES)
    await store.close()


def node_id(cluster: RedisCluster, number: int) -> str:
    return ask(cluster.servers[number].port, "CLUSTER", "MYID").decode().split("\r\n")[1]


def begin_move(cluster: RedisCluster, queue: str) -> None:
    """The slot of a queue is on its way from its node to the next."""
    slot, source = str(key_slot(queue.encode())), index_of(queue)
    target = (source + 1) % 3
    ask(cluster.servers[target].port, "CLUSTER", "SETSLOT", slot, "IMPORTING", node_id(cluster, source))
    ask(cluster.servers[source].port, "CLUSTER", "SETSLOT", slot, "MIGRATING", node_id(cluster, target))


async def move_keys(cluster: RedisCluster, queue: str, count: int) -> None:
    """Move some of the keys of a slot that is on its way."""
    source, slot = index_of(queue), key_slot(queue.encode())
    async with connected(cluster.servers[source].url) as server:
        keys = await server.execute_command("CLUSTER", "GETKEYSINSLOT", slot, count)
        if keys:
            place = ("127.0.0.1", cluster.servers[(source + 1) % 3].port)
            await server.execute_command("MIGRATE", *place, "", 0, 5_000, "KEYS", *keys)


def end_move(cluster: RedisCluster, queue: str) -> None:
    """The slot has arrived, and every node knows it."""
    slot, source = str(key_slot(queue.encode())), index_of(queue)
    target = (source + 1) % 3
    for number in (target, source, 3 - target - source):
        ask(cluster.servers[number].port, "CLUSTER", "SETSLOT", slot, "NODE", node_id(cluster, target))
