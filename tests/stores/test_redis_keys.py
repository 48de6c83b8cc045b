"""How the data lies in Redis: one slot a queue, nothing left behind, damage contained."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace

import msgspec
import pytest
from redis.asyncio import Redis

from redrive.core.errors import StoreError
from redrive.core.lanes import QUANTUM
from redrive.core.lifecycle import Move
from redrive.core.message import Track
from redrive.core.ports import Cleanup, Status
from redrive.core.verdict import Bury, Reason, Settlement
from redrive.stores.redis import RedisStore
from redrive.stores.redis.client import FORMAT
from redrive.stores.redis.frames import pack_id
from tests.conformance import makers
from tests.conformance.makers import keys

QUEUE = makers.QUEUE


@pytest.fixture
async def server(redis_url: str) -> AsyncIterator[Redis]:
    client = Redis.from_url(redis_url)
    yield client
    await client.aclose()


async def keys_of(server: Redis, prefix: str) -> set[str]:
    found = server.scan_iter(f"{prefix}[:/]*", count=1_000)
    return {key.decode("utf-8", "replace") async for key in found}


def left_over(prefix: str) -> set[str]:
    """What stays of a queue that was used: its counters and its lanes."""
    root = f"{prefix}:{{{QUEUE}}}"
    return {f"{prefix}:format", f"{prefix}:queues", root, f"{root}:tenants", f"{root}:lanes"}


async def live_every_life(store: RedisStore) -> None:
    """Retried, dead, re-driven, discarded, archived, suspect, child: a message of each."""
    await makers.submit(store, 2, tenant="acme", dedupe=None)
    await makers.append(store, makers.entry(store, tenant="bob", dedupe="k", track=Track.BULK))
    await makers.submit(store, 1, tenant="carl", delay_s=3_600)
    first, second, third = await makers.take(store)
    await makers.retry(store, first)
    await makers.bury(store, second)
    await makers.crash(store, third)
    await store.redrive(QUEUE, keys([second.message.id]), actor="ann")
    await makers.submit(store, tenant="dora", parent=second.message.id)
    await makers.take(store, 1, alone=True)
    await makers.dead(store, 2, tenant="emil")
    (letter, other) = [one for one in await makers.letters(store) if one.message.tenant == "emil"]
    await store.remove(QUEUE, keys([letter.message.id]), Move.DISCARD, actor="ann", operation="op-1")
    await store.remove(QUEUE, keys([other.message.id]), Move.ARCHIVE, actor="ann", operation="op-1")


async def test_every_key_of_a_queue_is_in_its_slot(store: RedisStore, server: Redis, prefix: str) -> None:
    await live_every_life(store)
    await store.put_record("notes", "1", {"text": "x"}, expected=0)
    await store.write_journal("audit", {"who": "ann"})
    keys = await keys_of(server, prefix)
    elsewhere = {key for key in keys if not key.startswith(f"{prefix}:{{{QUEUE}}}")}
    assert elsewhere == {
        f"{prefix}:format",
        f"{prefix}:queues",
        f"{prefix}/records:{{notes}}",
        f"{prefix}/records:{{notes}}:r:1",
        f"{prefix}/journal:{{audit}}",
    }


async def test_nothing_of_a_finished_message_is_left_after_cleanup(
    store: RedisStore, server: Redis, prefix: str
) -> None:
    await makers.append(store, makers.entry(store, dedupe="k"))
    delivery = await makers.take_one(store)
    await store.settle(
        [Settlement(delivery, Bury(Reason.PERMANENT, makers.failure(delivery, traceback="line 1")))]
    )
    await store.redrive(QUEUE, keys([delivery.message.id]), actor="ann")
    await makers.complete(store, await makers.take_one(store))
    store.skew_ms += 30 * 86_400_000
    assert await store.cleanup(Cleanup(finished_before_at=store.now())) == 2
    root = f"{prefix}:{{{QUEUE}}}"
    assert await keys_of(server, prefix) == left_over(prefix) | {f"{root}:departed"}


async def test_nothing_of_a_finished_family_and_of_a_hold_is_left_after_cleanup(
    store: RedisStore, server: Redis, prefix: str
) -> None:
    (parent_id,) = await makers.submit(store)
    parent = await makers.take_one(store)
    await makers.submit(store, 2, parent=parent_id)
    await makers.hold(store, await makers.take_one(store))
    await makers.complete(store, parent)
    root = f"{prefix}:{{{QUEUE}}}"
    families = [key async for key in server.scan_iter(f"{root}:family:*")]
    assert families == [f"{root}:family:".encode() + pack_id(parent_id)]
    assert await server.zcard(f"{root}:finished_order") == 0, "its children still need it"
    await makers.complete(store, *await makers.drain(store))
    store.skew_ms += 30 * 86_400_000
    assert await store.cleanup(Cleanup(finished_before_at=store.now())) == 3
    assert await keys_of(server, prefix) == left_over(prefix)


async def test_nothing_is_left_of_a_queue_that_was_deleted(
    store: RedisStore, server: Redis, prefix: str
) -> None:
    await live_every_life(store)
    root = f"{prefix}:{{{QUEUE}}}"
    while await store.purge(QUEUE, actor="ann"):
        pass
    store.skew_ms += 86_400_000
    await makers.complete(store, *await store.reclaim(QUEUE, "token", 30.0, 100))
    for letter in await makers.letters(store):
        await store.remove(QUEUE, keys([letter.message.id]), Move.DISCARD, actor="ann", operation="op-2")
    store.skew_ms += 86_400_000
    assert await server.exists(root)
    pages = [await store.delete_queue(QUEUE, limit=2)]
    while not pages[-1].gone:
        assert not pages[-1].refused, pages[-1]
        pages.append(await store.delete_queue(QUEUE, limit=2))
    assert await keys_of(server, prefix) == {f"{prefix}:format"}


async def test_data_from_before_the_release_is_refused_and_left_as_it_is(
    redis_url: str, server: Redis, prefix: str
) -> None:
    await server.set(f"{prefix}:format", FORMAT - 1)
    with pytest.raises(StoreError, match="another prefix"):
        await RedisStore(redis_url, prefix=prefix).open()
    assert int(await server.get(f"{prefix}:format")) == FORMAT - 1


async def test_equal_tracebacks_are_kept_once_and_as_long_as_a_failure_needs_them(
    store: RedisStore, server: Redis, prefix: str
) -> None:
    first, second = await makers.submit(store, 2)
    for delivery in await makers.take(store):
        failure = makers.failure(delivery, traceback="the same traceback")
        await store.settle([Settlement(delivery, Bury(Reason.PERMANENT, failure))])
    traces = f"{prefix}:{{{QUEUE}}}:traces"
    assert await server.hlen(traces) == 1
    for message_id in (first, second):
        assert (await makers.account(store, message_id)).failures[0].traceback == "the same traceback"
    await store.redrive(QUEUE, keys([first]), actor="ann")
    await makers.complete(store, await makers.take_one(store))
    store.skew_ms += 30 * 86_400_000
    assert await store.cleanup(Cleanup(finished_before_at=store.now())) == 1
    assert (await makers.account(store, second)).failures[0].traceback == "the same traceback"


async def test_a_failure_from_before_durations_were_kept_is_read(
    store: RedisStore, server: Redis, prefix: str
) -> None:
    (message_id,) = await makers.submit(store)
    delivery = await makers.take_one(store)
    kept = makers.failure(delivery, traceback="a traceback")
    await store.settle([Settlement(delivery, Bury(Reason.PERMANENT, kept))])
    key, field = f"{prefix}:{{{QUEUE}}}:failures", pack_id(message_id)
    packed = msgspec.msgpack.decode((await server.hget(key, field))[4:])
    older = msgspec.msgpack.encode(packed[:-3])
    await server.hset(key, field, len(older).to_bytes(4, "big") + older)
    before = replace(kept, duration_ms=None, delay_ms=None, delay_asked=False)
    assert (await makers.account(store, message_id)).failures == (before,)


async def damage_progress(server: Redis, prefix: str, message_id: str) -> None:
    await server.hset(f"{prefix}:{{{QUEUE}}}:progress", pack_id(message_id), b"\xc1 not msgpack")


async def test_a_message_whose_progress_is_damaged_is_handed_out_as_unreadable_beside_the_others(
    store: RedisStore, server: Redis, prefix: str
) -> None:
    bad, good = await makers.submit(store, 2)
    await makers.retry(store, *await makers.take(store))
    await damage_progress(server, prefix, bad)
    first, second = await makers.take(store)
    assert (first.message.id, second.message.id) == (bad, good)
    assert first.unreadable is not None
    assert second.unreadable is None
    await makers.bury(store, first, reason=Reason.POISON)
    await makers.complete(store, second)
    assert [letter.message.id for letter in await makers.letters(store)] == [bad]
    assert (await makers.counts(store)).pending == 0


async def test_a_message_whose_progress_is_damaged_while_claimed_comes_back_when_its_lease_ends(
    store: RedisStore, server: Redis, prefix: str
) -> None:
    (message_id,) = await makers.submit(store)
    await makers.retry(store, await makers.take_one(store))
    await makers.take_one(store)
    await damage_progress(server, prefix, message_id)
    store.skew_ms += 60_000
    (delivery,) = await store.reclaim(QUEUE, makers.new_token(), 30, 100)
    assert delivery.message.id == message_id
    assert delivery.unreadable is not None
    await makers.bury(store, delivery, reason=Reason.POISON)
    assert [letter.message.id for letter in await makers.letters(store)] == [message_id]


async def test_a_message_in_a_newer_format_is_unreadable_and_says_why(
    store: RedisStore, server: Redis, prefix: str
) -> None:
    (message_id,) = await makers.submit(store)
    frames = f"{prefix}:{{{QUEUE}}}:messages"
    frame = bytearray(await server.hget(frames, pack_id(message_id)))
    assert frame[0] == 2, "the format comes first"
    frame[0] = 9
    await server.hset(frames, pack_id(message_id), bytes(frame))
    delivery = await makers.take_one(store)
    assert delivery.message.body == bytes(frame)
    assert "newer" in str(delivery.unreadable)
    assert await makers.complete(store, delivery) == set()


ODD_IDS = (
    "plain",
    "fifteen letters",
    "sixteen letters!",
    "seventeen letters",
    "\x01",
    "\x02\x02" + "f" * 13,
    "é" * 8,
    "0190A6F0-1B2C-7D3E-8F40-5162738495A6",
    "0190a6f0-1b2c-7d3e-8f40-5162738495a6",
    "0190a6f01b2c7d3e8f405162738495a6",
    "0190a6f0-1b2c-7d3e-8f40-5162738495ag",
)


async def test_ids_of_any_form_stay_apart_and_come_back_as_they_were(store: RedisStore) -> None:
    assert len({pack_id(one) for one in ODD_IDS}) == len(ODD_IDS)
    await makers.append(store, *(makers.entry(store, id=one) for one in ODD_IDS))
    deliveries = await makers.take(store)
    assert makers.ids_of(deliveries) == list(ODD_IDS)
    await makers.bury(store, *deliveries)
    assert {one.message.id for one in await makers.letters(store)} == set(ODD_IDS)
    assert await store.redrive(QUEUE, keys(ODD_IDS), actor="ann") == set(ODD_IDS)
    assert await makers.complete(store, *await makers.take(store)) == set()
    for one in ODD_IDS:
        assert (await makers.account(store, one)).message.id == one


async def test_what_leaves_a_list_from_its_middle_leaves_nothing_behind(
    store: RedisStore, server: Redis, prefix: str
) -> None:
    ids = await makers.submit(store, 9)
    root = f"{prefix}:{{{QUEUE}}}"
    await store.cancel(QUEUE, ids[3:6], actor="ann")
    assert await server.scard(f"{root}:gone") == 3
    await store.cancel(QUEUE, ids[1:3], actor="ann")
    await store.cancel(QUEUE, ids[:1], actor="ann")
    assert await server.exists(f"{root}:gone") == 0, "the head is always one that waits"
    assert makers.ids_of(await makers.take(store, 2)) == ids[6:8]
    await store.cancel(QUEUE, ids[8:], actor="ann")
    assert await server.exists(f"{root}:ready:main:{makers.TENANT}") == 0
    assert (await makers.claim(store)).next_at is None


async def test_what_expires_before_its_elders_is_found_in_a_list_of_many(store: RedisStore) -> None:
    await makers.submit(store, 20)
    brief = await makers.submit(store, 3, ttl_s=60)
    await makers.submit(store, 20)
    store.skew_ms += 120_000
    expired = await store.reclaim(QUEUE, makers.new_token(), 30, 500)
    assert makers.ids_of(expired) == brief
    handed_out = makers.ids_of(await makers.drain(store))
    assert len(handed_out) == 40
    assert not set(brief) & set(handed_out)


async def test_data_of_a_newer_redrive_is_refused(redis_url: str, server: Redis, prefix: str) -> None:
    await server.set(f"{prefix}:format", FORMAT + 1)
    with pytest.raises(StoreError, match="newer Redrive"):
        await RedisStore(redis_url, prefix=prefix).open()


async def test_a_queue_named_like_a_record_kind_shares_no_key_with_it(store: RedisStore) -> None:
    await store.put_record("notes", "1", {"text": "x"}, expected=0)
    receipts = await makers.append(store, makers.entry(store, queue="records:notes"))
    assert receipts[0].status is Status.ACCEPTED
    assert [record.id for record in await store.list_records("notes")] == ["1"]


async def test_more_lanes_than_a_claim_wakes_are_all_served_by_the_next_claims(store: RedisStore) -> None:
    entries = [makers.entry(store, tenant=f"t{number:03}", delay_s=60) for number in range(450)]
    await makers.append(store, *entries)
    store.skew_ms += 120_000
    sizes = [len(await makers.take(store, 1_000)) for _ in range(4)]
    assert sizes == [200, 200, 50, 0]


async def count_commands(server: Redis) -> int:
    stats = await server.info("commandstats")
    return sum(int(row["calls"]) for name, row in stats.items() if name != "cmdstat_info")


async def test_a_claim_costs_as_many_commands_whatever_waits_behind_it(
    store: RedisStore, server: Redis
) -> None:
    await makers.submit(store, tenant="first")
    await makers.complete(store, *await makers.take(store))
    costs = []
    for waiting in (10, 1_000):
        for tenant in ("a", "b", "c"):
            await makers.submit(store, waiting, tenant=tenant)
        await makers.submit(store, waiting, tenant="later", delay_s=3_600)
        before = await count_commands(server)
        await makers.complete(store, *await makers.take(store, 9))
        costs.append(await count_commands(server) - before)
    assert costs[0] == costs[1]


async def test_a_lane_more_in_a_claim_costs_two_commands_and_in_a_settle_none(
    store: RedisStore, server: Redis
) -> None:
    claims, settles = [], []
    for lanes in (5, 25):
        for number in range(lanes):
            await makers.submit(store, 2 * QUANTUM, tenant=f"t{number}")
        before = await count_commands(server)
        deliveries = await makers.take(store, QUANTUM * lanes)
        claimed = await count_commands(server)
        assert len({delivery.message.tenant for delivery in deliveries}) == lanes
        await makers.complete(store, *deliveries)
        claims.append(claimed - before)
        settles.append(await count_commands(server) - claimed)
        await makers.complete(store, *await makers.take(store, QUANTUM * lanes))
    assert claims[1] - claims[0] == 2 * 20
    assert settles[0] == settles[1]
