"""Source.extend and Upkeep.reclaim: who holds a message, for how long, and who takes over."""

from __future__ import annotations

import asyncio

from redrive.core.failure import Kind
from redrive.core.lanes import LaneState
from redrive.core.lifecycle import State
from redrive.core.message import Delivery, Lapse, Lease
from redrive.core.store import Store
from redrive.core.verdict import Release, Settlement
from tests.conformance.backends import Bench
from tests.conformance.makers import (
    MINUTE_S,
    account,
    claim,
    complete,
    failure,
    ids_of,
    lane,
    new_token,
    release,
    retry,
    soon,
    submit,
    take,
    take_one,
)


async def reclaim(store: Store, token: str | None = None, limit: int = 100) -> list[Delivery]:
    return await store.reclaim("orders", token or new_token(), 30.0, limit)


async def test_a_live_lease_is_never_reclaimed(bench: Bench, store: Store) -> None:
    await submit(store, 3)
    await claim(store, lease_s=120)
    bench.advance(60)
    assert await reclaim(store) == []


async def test_an_expired_lease_is_taken_over_under_a_new_token(bench: Bench, store: Store) -> None:
    (message_id,) = await submit(store, body=b"payload", headers={"Trace": "1"})
    old = await take_one(store)
    bench.advance(60)
    (taken,) = await reclaim(store, "mine")
    assert (taken.message, taken.lapse) == (old.message, Lapse.LOST)
    assert (taken.progress.state, taken.progress.attempts) == (State.CLAIMED, 1)
    assert taken.lease.token == "mine"  # noqa: S105 - not a secret
    assert abs(taken.lease.until_at - store.now() - 30_000) < 5_000
    assert (await account(store, message_id)).lease_until_at == taken.lease.until_at


async def test_a_stale_worker_is_refused_after_its_lease_was_taken_over(bench: Bench, store: Store) -> None:
    (message_id,) = await submit(store)
    stale = await take_one(store)
    bench.advance(60)
    (taken,) = await reclaim(store)
    assert await complete(store, stale) == {message_id}
    assert await store.extend([stale.lease], 30) == {stale.lease.token}
    assert await retry(store, taken) == set()
    assert (await account(store, message_id)).state is State.WAITING


async def test_an_expired_lease_that_nobody_took_over_still_settles(bench: Bench, store: Store) -> None:
    await submit(store, 2)
    first, second = await take(store)
    bench.advance(60)
    assert await complete(store, first) == set()
    assert await store.extend([second.lease], 30) == set()
    assert await reclaim(store) == []
    assert await complete(store, second) == set()


async def test_the_same_reclaim_token_gets_the_same_batch(bench: Bench, store: Store) -> None:
    await submit(store, 3)
    await take(store)
    bench.advance(60)
    first = await reclaim(store, "mine")
    again = await reclaim(store, "mine")
    assert len(first) == 3
    assert sorted(ids_of(again)) == sorted(ids_of(first))
    await complete(store, first[0])
    assert sorted(ids_of(await reclaim(store, "mine"))) == sorted(ids_of(first[1:]))
    assert await reclaim(store) == []


async def test_only_what_was_not_settled_is_reclaimed(bench: Bench, store: Store) -> None:
    await submit(store, 4)
    done, failed, given_back, held = await take(store)
    await complete(store, done)
    await retry(store, failed, delay_s=10 * MINUTE_S)
    await release(store, given_back, delay_s=10 * MINUTE_S)
    bench.advance(60)
    assert ids_of(await reclaim(store)) == [held.message.id]


async def test_reclaim_works_in_pages(bench: Bench, store: Store) -> None:
    ids = await submit(store, 5)
    await take(store)
    bench.advance(60)
    pages = [await reclaim(store, limit=2) for _ in range(4)]
    assert [len(page) for page in pages] == [2, 2, 1, 0]
    assert sorted(message_id for page in pages for message_id in ids_of(page)) == sorted(ids)


async def test_a_lease_taken_over_can_be_lost_again(bench: Bench, store: Store) -> None:
    (message_id,) = await submit(store)
    await take(store)
    for _ in range(3):
        bench.advance(60)
        (taken,) = await reclaim(store)
        assert (taken.message.id, taken.lapse, taken.progress.attempts) == (message_id, Lapse.LOST, 1)


async def test_a_lost_message_gives_its_attempt_back_when_released(bench: Bench, store: Store) -> None:
    (message_id,) = await submit(store)
    await take(store)
    bench.advance(60)
    (taken,) = await reclaim(store)
    lost = Release(soon(store), failure(taken, kind=Kind.LOST))
    assert await store.settle([Settlement(taken, lost)]) == set()
    progress = (await account(store, message_id)).progress
    assert (progress.state, progress.attempts, progress.crashes) == (State.WAITING, 0, 1)


async def test_two_upkeepers_never_take_over_the_same_message(bench: Bench) -> None:
    stores = [await bench.open_store(), await bench.open_store()]
    ids = await submit(stores[0], 20)
    await take(stores[0])
    bench.advance(60)
    batches = await asyncio.gather(*(reclaim(store, limit=12) for store in stores))
    assert sorted(message_id for batch in batches for message_id in ids_of(batch)) == sorted(ids)


async def test_a_paused_queue_gives_up_its_expired_leases(bench: Bench, store: Store) -> None:
    ids = await submit(store)
    await take(store)
    await store.set_queue("orders", LaneState.PAUSED)
    bench.advance(60)
    assert ids_of(await reclaim(store)) == ids


async def test_reclaim_keeps_to_its_queue(bench: Bench, store: Store) -> None:
    await submit(store, queue="mail")
    await take(store, queue="mail")
    bench.advance(60)
    assert await reclaim(store) == []


async def test_reclaim_leaves_the_counters_of_a_lane(bench: Bench, store: Store) -> None:
    await submit(store, 3)
    await take(store, 2)
    before = await lane(store)
    bench.advance(60)
    assert len(await reclaim(store)) == 2
    after = await lane(store)
    assert (after.waiting, after.in_flight, after.served) == (before.waiting, before.in_flight, before.served)


async def test_an_extended_lease_lives_on(bench: Bench, store: Store) -> None:
    (message_id,) = await submit(store)
    delivery = await take_one(store)
    for _ in range(3):
        bench.advance(20)
        assert await store.extend([delivery.lease], 30) == set()
    assert await reclaim(store) == []
    until_at = (await account(store, message_id)).lease_until_at
    assert until_at is not None
    assert abs(until_at - store.now() - 30_000) < 5_000
    assert await complete(store, delivery) == set()


async def test_extend_prolongs_the_whole_batch(bench: Bench, store: Store) -> None:
    await submit(store, 5)
    batch = await take(store)
    bench.advance(20)
    assert await store.extend([batch[0].lease], 30) == set()
    bench.advance(20)
    assert await reclaim(store) == []


async def test_extend_tells_which_tokens_nobody_holds(bench: Bench, store: Store) -> None:
    await submit(store, 5)
    settled, (first, second), lost = await take(store, 1), await take(store, 2), await take(store, 2)
    await complete(store, *settled, first)
    await store.extend([second.lease], 600)
    bench.advance(60)
    await reclaim(store)
    unknown = Lease("orders", "never-seen", 0)
    gone = await store.extend([settled[0].lease, second.lease, lost[0].lease, unknown], 30)
    assert gone == {settled[0].lease.token, lost[0].lease.token, "never-seen"}


async def test_extend_works_over_several_queues(bench: Bench, store: Store) -> None:
    await submit(store, queue="orders")
    await submit(store, queue="mail")
    leases = [(await take_one(store, queue=queue)).lease for queue in ("orders", "mail")]
    bench.advance(20)
    assert await store.extend(leases, 30) == set()
    bench.advance(20)
    assert await reclaim(store) == []
    assert await store.reclaim("mail", new_token(), 30, 10) == []


async def test_extending_nothing_loses_nothing(store: Store) -> None:
    assert await store.extend([], 30) == set()
