"""Suspects: messages whose worker was lost run alone, one at a time."""

from __future__ import annotations

from redrive.core.failure import Kind
from redrive.core.lanes import LaneChange, LaneState
from redrive.core.lifecycle import State
from redrive.core.limits import Rate
from redrive.core.store import Store
from redrive.core.verdict import Reason, Release
from tests.conformance.backends import Bench
from tests.conformance.makers import (
    MINUTE_S,
    account,
    bury,
    claim,
    complete,
    counts,
    crash,
    drain,
    failure,
    ids_of,
    keys,
    lane,
    new_token,
    release,
    retry,
    settle,
    soon,
    submit,
    take,
    take_one,
)


async def suspects(store: Store, count: int = 1) -> list[str]:
    """Ids of `count` fresh suspects."""
    ids = await submit(store, count)
    await crash(store, *await drain(store))
    return ids


async def test_a_lost_worker_adds_a_crash_and_gives_the_attempt_back(store: Store) -> None:
    (message_id,) = await submit(store)
    delivery = await take_one(store)
    lost = failure(delivery, kind=Kind.LOST)
    assert await settle(store, Release(soon(store), lost), delivery) == set()
    found = await account(store, message_id)
    assert (found.state, found.progress.attempts, found.progress.crashes) == (State.WAITING, 0, 1)
    assert found.failures == (lost,)


async def test_a_suspect_is_left_where_it_is_by_an_ordinary_claim(store: Store) -> None:
    await suspects(store)
    (fresh,) = await submit(store)
    claimed = await claim(store)
    assert (ids_of(claimed), claimed.suspects) == ([fresh], True)


async def test_a_claim_says_when_no_suspect_waits(store: Store) -> None:
    await submit(store)
    assert (await claim(store)).suspects is False


async def test_suspects_come_alone_one_at_a_time(store: Store) -> None:
    ids = await suspects(store, 3)
    taken: list[str] = []
    for _ in ids:
        (delivery,) = await take(store, 10, alone=True)
        assert (delivery.progress.attempts, delivery.progress.crashes) == (1, 1)
        taken.append(delivery.message.id)
    assert sorted(taken) == sorted(ids)
    assert await take(store, 10, alone=True) == []


async def test_a_claim_for_suspects_takes_nothing_else(store: Store) -> None:
    await submit(store, 3)
    assert await take(store, alone=True) == []
    assert len(await drain(store)) == 3


async def test_the_same_token_gets_the_same_suspect(store: Store) -> None:
    await suspects(store, 2)
    token = new_token()
    first = await claim(store, 1, token=token, alone=True)
    assert ids_of(await claim(store, 1, token=token, alone=True)) == ids_of(first)


async def test_crashes_add_up(store: Store) -> None:
    (message_id,) = await suspects(store)
    await crash(store, await take_one(store, alone=True))
    progress = (await account(store, message_id)).progress
    assert (progress.attempts, progress.crashes) == (0, 2)
    assert (await take_one(store, alone=True)).progress.crashes == 2


async def test_a_failed_attempt_clears_the_crashes(store: Store) -> None:
    (message_id,) = await suspects(store)
    await retry(store, await take_one(store, alone=True))
    progress = (await account(store, message_id)).progress
    assert (progress.attempts, progress.crashes) == (1, 0)
    claimed = await claim(store)
    assert (ids_of(claimed), claimed.suspects) == ([message_id], False)


async def test_a_graceful_release_keeps_the_crashes(store: Store) -> None:
    (message_id,) = await suspects(store)
    await release(store, await take_one(store, alone=True))
    progress = (await account(store, message_id)).progress
    assert (progress.attempts, progress.crashes) == (0, 1)
    assert await take(store) == []
    assert ids_of(await take(store, alone=True)) == [message_id]


async def test_a_suspect_may_be_done_or_buried(store: Store) -> None:
    await suspects(store, 2)
    assert await complete(store, await take_one(store, alone=True)) == set()
    assert await bury(store, await take_one(store, alone=True), reason=Reason.WORKER_LOST) == set()
    found = await lane(store)
    assert (found.done, found.dead, found.waiting, found.in_flight) == (1, 1, 0, 0)
    assert (await counts(store)).suspects == 0


async def test_a_redrive_clears_the_crashes(store: Store) -> None:
    (message_id,) = await suspects(store)
    await bury(store, await take_one(store, alone=True), reason=Reason.WORKER_LOST)
    assert (await account(store, message_id)).progress.crashes == 1
    await store.redrive("orders", keys([message_id]), actor="ann")
    delivery = await take_one(store)
    assert (delivery.message.id, delivery.progress.crashes) == (message_id, 0)


async def test_a_suspect_waits_for_its_instant(bench: Bench, store: Store) -> None:
    (message_id,) = await submit(store)
    delivery = await take_one(store)
    due_at = soon(store, 10 * MINUTE_S)
    await settle(store, Release(due_at, failure(delivery, kind=Kind.LOST)), delivery)
    claimed = await claim(store, alone=True)
    assert (claimed.deliveries, claimed.suspects) == ((), False)
    assert (await claim(store)).next_at == due_at
    bench.advance(11 * MINUTE_S)
    assert (await claim(store)).suspects is True
    assert ids_of(await take(store, alone=True)) == [message_id]


async def test_suspects_of_stopped_lanes_and_queues_stay(store: Store) -> None:
    ids = await suspects(store)
    await store.set_lane("orders", "acme", LaneChange(state=LaneState.PAUSED))
    assert (await claim(store)).suspects is False
    assert await take(store, alone=True) == []
    await store.set_lane("orders", "acme", LaneChange(state=LaneState.RUNNING))
    await store.set_queue("orders", LaneState.PAUSED)
    assert await take(store, alone=True) == []
    await store.set_queue("orders", LaneState.RUNNING)
    assert ids_of(await take(store, alone=True)) == ids


async def test_a_suspect_does_not_block_its_lane(store: Store) -> None:
    await suspects(store, 2)
    fresh = await submit(store, 5)
    assert ids_of(await drain(store)) == fresh


async def test_a_suspect_counts_as_waiting(store: Store) -> None:
    await suspects(store, 2)
    assert (await lane(store)).waiting == 2
    found = await counts(store)
    assert (found.pending, found.suspects) == (2, 2)


async def test_a_suspect_can_be_cancelled(store: Store) -> None:
    ids = await suspects(store)
    assert await store.cancel("orders", ids, actor="ann") == set(ids)
    claimed = await claim(store)
    assert (claimed.deliveries, claimed.suspects) == ((), False)
    assert (await lane(store)).waiting == 0


async def test_a_suspect_beyond_the_rate_stays_where_it_is(bench: Bench, store: Store) -> None:
    (message_id,) = await suspects(store)
    await submit(store)
    rate = Rate(1, MINUTE_S)
    assert len((await claim(store, rate=rate)).deliveries) == 1
    refused = await claim(store, rate=rate, alone=True)
    assert (refused.deliveries, refused.suspects) == ((), True)
    found = await lane(store)
    assert (found.waiting, found.in_flight, (await counts(store)).suspects) == (1, 1, 1)
    bench.advance(2 * MINUTE_S)
    assert ids_of(await claim(store, rate=rate, alone=True)) == [message_id]
