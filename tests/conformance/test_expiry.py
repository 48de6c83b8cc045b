"""Upkeep.reclaim on the time to live, and records that cannot be decoded."""

from __future__ import annotations

from redrive.core.failure import Kind
from redrive.core.lanes import LaneChange, LaneState
from redrive.core.lifecycle import Move, State
from redrive.core.message import Delivery, Lapse
from redrive.core.store import Store
from redrive.core.verdict import Bury, Reason, Release
from tests.conformance.backends import Bench
from tests.conformance.makers import (
    MINUTE_S,
    account,
    bury,
    crash,
    dead,
    drain,
    failure,
    ids_of,
    keys,
    lane,
    letters,
    new_token,
    retry,
    settle,
    soon,
    submit,
    take,
    take_one,
)


async def reclaim(store: Store, token: str | None = None) -> list[Delivery]:
    return await store.reclaim("orders", token or new_token(), 30.0, 100)


async def test_a_waiting_message_past_its_time_to_live_is_reclaimed(bench: Bench, store: Store) -> None:
    (message_id,) = await submit(store, ttl_s=10 * MINUTE_S, body=b"payload")
    bench.advance(9 * MINUTE_S)
    assert await reclaim(store) == []
    bench.advance(2 * MINUTE_S)
    (expired,) = await reclaim(store)
    assert (expired.message.id, expired.lapse, expired.message.body) == (
        message_id,
        Lapse.EXPIRED,
        b"payload",
    )
    assert (expired.progress.state, expired.progress.attempts) == (State.CLAIMED, 0)
    found = await lane(store)
    assert (found.waiting, found.in_flight, found.served) == (0, 1, 0)
    assert await drain(store) == []


async def test_an_expired_message_becomes_a_dead_letter(bench: Bench, store: Store) -> None:
    await submit(store, ttl_s=MINUTE_S)
    bench.advance(2 * MINUTE_S)
    (expired,) = await reclaim(store)
    last = failure(expired, "older than its time to live", kind=Kind.EXPIRED)
    assert await settle(store, Bury(Reason.EXPIRED, last), expired) == set()
    (letter,) = await letters(store)
    assert (letter.reason, letter.progress.attempts, letter.failures) == (Reason.EXPIRED, 0, (last,))
    found = await lane(store)
    assert (found.waiting, found.in_flight, found.dead) == (0, 0, 1)


async def test_the_same_token_gets_the_same_expired_messages(bench: Bench, store: Store) -> None:
    ids = await submit(store, 2, ttl_s=MINUTE_S)
    bench.advance(2 * MINUTE_S)
    token = new_token()
    assert sorted(ids_of(await reclaim(store, token))) == ids
    again = await reclaim(store, token)
    assert sorted(ids_of(again)) == ids
    assert {one.lapse for one in again} == {Lapse.EXPIRED}
    assert await reclaim(store) == []


async def test_messages_of_stopped_lanes_and_queues_expire_too(bench: Bench, store: Store) -> None:
    ids = await submit(store, tenant="paused", ttl_s=MINUTE_S)
    ids += await submit(store, tenant="capped", ttl_s=MINUTE_S)
    await store.set_lane("orders", "paused", LaneChange(state=LaneState.PAUSED))
    await store.set_lane("orders", "capped", LaneChange(cap=1))
    await submit(store, tenant="capped", delay_s=-MINUTE_S)
    assert len(await take(store)) == 1
    await store.set_queue("orders", LaneState.PAUSED)
    bench.advance(2 * MINUTE_S)
    assert sorted(one.message.id for one in await reclaim(store) if one.lapse is Lapse.EXPIRED) == ids


async def test_a_suspect_expires_too(bench: Bench, store: Store) -> None:
    ids = await submit(store, ttl_s=MINUTE_S)
    await crash(store, await take_one(store))
    bench.advance(2 * MINUTE_S)
    (expired,) = await reclaim(store)
    assert ([expired.message.id], expired.lapse, expired.progress.crashes) == (ids, Lapse.EXPIRED, 1)
    await bury(store, expired, reason=Reason.EXPIRED)
    assert (await lane(store)).waiting == 0


async def test_a_scheduled_message_lives_from_the_moment_it_may_run(bench: Bench, store: Store) -> None:
    (message_id,) = await submit(store, delay_s=60 * MINUTE_S, ttl_s=MINUTE_S)
    bench.advance(59 * MINUTE_S)
    assert await reclaim(store) == []
    bench.advance(3 * MINUTE_S)
    assert ids_of(await reclaim(store)) == [message_id]


async def test_a_live_lease_outlives_the_time_to_live(bench: Bench, store: Store) -> None:
    await submit(store, ttl_s=MINUTE_S)
    delivery = await take_one(store)
    await store.extend([delivery.lease], 600)
    bench.advance(2 * MINUTE_S)
    assert await reclaim(store) == []


async def test_a_retry_past_the_time_to_live_expires_with_its_attempts(bench: Bench, store: Store) -> None:
    await submit(store, ttl_s=MINUTE_S)
    await retry(store, await take_one(store), delay_s=30 * MINUTE_S)
    bench.advance(2 * MINUTE_S)
    (expired,) = await reclaim(store)
    assert (expired.lapse, expired.progress.attempts) == (Lapse.EXPIRED, 1)


async def test_an_expired_message_stays_expired_when_who_took_it_over_is_lost(
    bench: Bench, store: Store
) -> None:
    await submit(store, ttl_s=MINUTE_S)
    bench.advance(2 * MINUTE_S)
    for _ in range(2):
        (expired,) = await reclaim(store)
        assert (expired.lapse, expired.progress.attempts) == (Lapse.EXPIRED, 0)
        bench.advance(2 * MINUTE_S)


async def test_attempts_never_fall_below_zero(bench: Bench, store: Store) -> None:
    (message_id,) = await submit(store, ttl_s=MINUTE_S)
    bench.advance(2 * MINUTE_S)
    await reclaim(store)
    bench.advance(2 * MINUTE_S)
    (lost,) = await reclaim(store)
    assert lost.progress.attempts == 0
    await settle(store, Release(soon(store), failure(lost, kind=Kind.LOST)), lost)
    assert (await account(store, message_id)).progress.attempts == 0


async def test_an_unreadable_record_comes_with_its_raw_bytes_and_spoils_nothing(
    bench: Bench, store: Store
) -> None:
    first, bad, last = await submit(store, 3, body=b"payload", headers={"Trace": "1"})
    await bench.corrupt(bad)
    deliveries = {one.message.id: one for one in await drain(store)}
    assert set(deliveries) == {first, bad, last}
    assert [one.message.id for one in deliveries.values() if one.unreadable] == [bad]
    spoiled = deliveries[bad]
    assert (spoiled.message.queue, spoiled.message.tenant) == ("orders", "acme")
    assert spoiled.message.body != b""
    assert deliveries[first].message.body == b"payload"


async def test_an_unreadable_record_can_be_buried_and_looked_at(bench: Bench, store: Store) -> None:
    (bad,) = await submit(store, headers={"Trace": "1"})
    await bench.corrupt(bad)
    assert await bury(store, await take_one(store), reason=Reason.POISON) == set()
    good = await dead(store)
    assert {letter.message.id for letter in await letters(store)} == {bad, *good}
    found = await account(store, bad)
    assert (found.state, found.reason) == (State.DEAD, Reason.POISON)
    assert found.message.body != b""


async def test_an_unreadable_record_is_reclaimed_like_any_other(bench: Bench, store: Store) -> None:
    good, bad = await submit(store, 2, headers={"Trace": "1"})
    await take(store)
    await bench.corrupt(bad)
    bench.advance(2 * MINUTE_S)
    taken = {one.message.id: one for one in await reclaim(store)}
    assert (taken[good].unreadable, taken[bad].unreadable is not None) == (None, True)


async def test_an_unreadable_record_can_be_redriven_and_discarded(bench: Bench, store: Store) -> None:
    (bad,) = await submit(store, headers={"Trace": "1"})
    await bench.corrupt(bad)
    await bury(store, await take_one(store), reason=Reason.POISON)
    assert await store.redrive("orders", keys([bad]), actor="ann") == {bad}
    again = await take_one(store)
    assert again.unreadable
    await bury(store, again, reason=Reason.POISON)
    assert await store.remove("orders", keys([bad]), Move.DISCARD, actor="ann") == {bad}
