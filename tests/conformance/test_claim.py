"""Source.claim: what is handed out, to whom, when, and how much. Fairness has its own file."""

from __future__ import annotations

import asyncio

from redrive.core.lanes import LaneState
from redrive.core.lifecycle import State
from redrive.core.limits import Rate
from redrive.core.store import Store
from tests.conformance.backends import Bench
from tests.conformance.makers import (
    MINUTE_S,
    account,
    append,
    claim,
    complete,
    drain,
    entry,
    ids_of,
    new_token,
    release,
    retry,
    submit,
    take,
    take_one,
)


async def test_a_claim_counts_the_attempt_and_gives_a_lease(store: Store) -> None:
    sent = entry(store, body=b"payload", headers={"Trace": "1"})
    await append(store, sent)
    before_at = store.now()
    (delivery,) = (await claim(store, token="mine", lease_s=30)).deliveries  # noqa: S106 - not a secret
    assert delivery.message == sent.message
    assert (delivery.progress.state, delivery.progress.attempts) == (State.CLAIMED, 1)
    assert (delivery.lease.queue, delivery.lease.token) == ("orders", "mine")
    assert abs(delivery.lease.until_at - before_at - 30_000) < 5_000
    assert (delivery.lapse, delivery.unreadable) == (None, None)


async def test_the_attempt_is_stored_at_the_claim(store: Store) -> None:
    (message_id,) = await submit(store)
    delivery = await take_one(store)
    found = await account(store, message_id)
    assert (found.state, found.progress.attempts) == (State.CLAIMED, 1)
    assert found.lease_until_at == delivery.lease.until_at
    assert found.message.body == delivery.message.body


async def test_each_attempt_counts_one_more(store: Store) -> None:
    await submit(store)
    for attempt in (1, 2, 3):
        delivery = await take_one(store)
        assert delivery.progress.attempts == attempt
        await retry(store, delivery)


async def test_an_empty_queue_hands_out_nothing(store: Store) -> None:
    claimed = await claim(store)
    assert (claimed.deliveries, claimed.suspects, claimed.next_at) == ((), False, None)


async def test_the_same_token_gets_the_same_batch(store: Store) -> None:
    await submit(store, 5)
    token = new_token()
    first = await claim(store, 3, token=token)
    again = await claim(store, 3, token=token)
    assert len(first.deliveries) == 3
    assert sorted(ids_of(again)) == sorted(ids_of(first))
    assert {one.progress.attempts for one in again.deliveries} == {1}
    assert {one.message.body for one in again.deliveries} == {b"{}"}


async def test_the_same_token_gets_only_what_is_still_held(store: Store) -> None:
    await submit(store, 3)
    token = new_token()
    first, second, third = (await claim(store, 3, token=token)).deliveries
    await complete(store, first)
    await release(store, third, delay_s=MINUTE_S)
    assert ids_of(await claim(store, 3, token=token)) == [second.message.id]


async def test_the_same_token_does_not_prolong_the_lease(bench: Bench, store: Store) -> None:
    await submit(store)
    token = new_token()
    (first,) = (await claim(store, token=token)).deliveries
    bench.advance(10)
    (again,) = (await claim(store, token=token)).deliveries
    assert again.lease == first.lease


async def test_a_claim_takes_no_more_than_its_limit(store: Store) -> None:
    await submit(store, 10)
    assert len(await take(store, 4)) == 4
    assert len(await drain(store)) == 6


async def test_a_claim_stops_before_its_bytes_are_passed(store: Store) -> None:
    ids = await submit(store, 5, body=bytes(100))
    assert ids_of(await claim(store, max_bytes=250)) == ids[:2]
    assert ids_of(await claim(store, max_bytes=100)) == ids[2:3]


async def test_one_message_always_fits(store: Store) -> None:
    ids = await submit(store, 2, body=bytes(1_000))
    assert ids_of(await claim(store, max_bytes=10)) == ids[:1]


async def test_a_lane_runs_by_due_instant(store: Store) -> None:
    entries = [entry(store, delay_s=-back) for back in (10, 40, 20, 50, 30)]
    await append(store, *entries)
    expected = [one.message.id for one in sorted(entries, key=lambda one: one.due_at)]
    assert ids_of(await drain(store, limit=2)) == expected


async def test_messages_due_at_one_instant_run_in_the_order_of_acceptance(store: Store) -> None:
    sent = entry(store)
    due_at = sent.due_at
    batch = [entry(store) for _ in range(30)]
    alike = [type(one)(one.message, due_at, one.expires_at) for one in batch]
    await append(store, *alike)
    assert ids_of(await drain(store, limit=7)) == [one.message.id for one in alike]


async def test_a_delayed_message_does_not_run_before_its_instant(bench: Bench, store: Store) -> None:
    (message_id,) = await submit(store, delay_s=10 * MINUTE_S)
    assert await take(store) == []
    bench.advance(9 * MINUTE_S)
    assert await take(store) == []
    bench.advance(MINUTE_S)
    assert ids_of(await take(store)) == [message_id]


async def test_an_earlier_delay_is_not_hidden_by_a_later_one(bench: Bench, store: Store) -> None:
    (late,) = await submit(store, delay_s=60 * MINUTE_S)
    (early,) = await submit(store, delay_s=MINUTE_S)
    bench.advance(2 * MINUTE_S)
    assert ids_of(await take(store)) == [early]
    bench.advance(60 * MINUTE_S)
    assert ids_of(await take(store)) == [late]


async def test_a_claim_tells_when_more_may_be_due(store: Store) -> None:
    await append(store, entry(store, delay_s=20 * MINUTE_S, tenant="b"))
    sooner = entry(store, delay_s=10 * MINUTE_S)
    await append(store, sooner)
    claimed = await claim(store)
    assert (claimed.deliveries, claimed.next_at) == ((), sooner.due_at)


async def test_a_batch_also_tells_when_more_may_be_due(store: Store) -> None:
    later = entry(store, delay_s=10 * MINUTE_S, tenant="b")
    await append(store, entry(store), later)
    claimed = await claim(store)
    assert len(claimed.deliveries) == 1
    assert claimed.next_at is not None
    assert claimed.next_at <= later.due_at


async def test_a_retry_runs_when_it_is_due_and_not_before(bench: Bench, store: Store) -> None:
    (message_id,) = await submit(store)
    await retry(store, await take_one(store), delay_s=10 * MINUTE_S)
    claimed = await claim(store)
    assert (claimed.deliveries, claimed.next_at) == ((), (await account(store, message_id)).progress.due_at)
    bench.advance(11 * MINUTE_S)
    assert ids_of(await take(store)) == [message_id]


async def test_a_paused_queue_hands_out_nothing_until_it_is_resumed(store: Store) -> None:
    (message_id,) = await submit(store)
    await store.set_queue("orders", LaneState.PAUSED)
    assert await take(store) == []
    await store.set_queue("orders", LaneState.RUNNING)
    assert ids_of(await take(store)) == [message_id]


async def test_a_paused_queue_still_accepts(store: Store) -> None:
    await store.set_queue("orders", LaneState.PAUSED)
    (message_id,) = await submit(store)
    assert await take(store) == []
    await store.set_queue("orders", LaneState.RUNNING)
    assert ids_of(await take(store)) == [message_id]


async def test_two_claimers_never_share_a_message(bench: Bench) -> None:
    stores = [await bench.open_store(), await bench.open_store()]
    ids: list[str] = []
    for tenant in "abc":
        ids += await submit(stores[0], 40, tenant=tenant)
    batches = await asyncio.gather(*(drain(store, limit=5) for store in stores for _ in range(2)))
    taken = [message_id for batch in batches for message_id in ids_of(batch)]
    assert sorted(taken) == sorted(ids)


async def test_a_rate_bounds_the_hand_outs_of_a_period(bench: Bench, store: Store) -> None:
    await submit(store, 10)
    rate = Rate(3, 60.0)
    assert len((await claim(store, 2, rate=rate)).deliveries) == 2
    assert len((await claim(store, 10, rate=rate)).deliveries) == 1
    claimed = await claim(store, 10, rate=rate)
    assert claimed.deliveries == ()
    assert claimed.next_at is not None
    assert 50_000 < claimed.next_at - store.now() <= 60_000
    bench.advance(61)
    assert len((await claim(store, 10, rate=rate)).deliveries) == 3


async def test_a_rate_counts_what_was_handed_out_not_what_was_asked_for(store: Store) -> None:
    rate = Rate(3, 60.0)
    await submit(store)
    assert len((await claim(store, 10, rate=rate)).deliveries) == 1
    await submit(store, 10)
    assert len((await claim(store, 10, rate=rate)).deliveries) == 2


async def test_a_rate_belongs_to_its_queue(store: Store) -> None:
    rate = Rate(1, 60.0)
    await submit(store, 2, queue="orders")
    await submit(store, 2, queue="mail")
    assert len((await claim(store, queue="orders", rate=rate)).deliveries) == 1
    assert len((await claim(store, queue="mail", rate=rate)).deliveries) == 1


async def test_a_waiter_hears_of_new_work_in_another_store(bench: Bench) -> None:
    worker, submitter = await bench.open_store(), await bench.open_store()
    await submit(submitter, delay_s=60 * MINUTE_S)
    waiter = asyncio.create_task(worker.wait(["mail", "orders"], 60.0))
    async with asyncio.timeout(10):
        while not waiter.done():
            await submit(submitter)
            await asyncio.wait({waiter}, timeout=0.05)
    await waiter


async def test_a_waiter_gives_up_after_its_time(store: Store) -> None:
    async with asyncio.timeout(10):
        await store.wait(["orders"], 0.01)
