"""Lanes: pauses, holds, caps and their effect on a backlog; the counters of a tenant; listings."""

from __future__ import annotations

import pytest

from redrive.core.lanes import LaneChange, LaneState
from redrive.core.store import Store
from tests.conformance.backends import Bench
from tests.conformance.makers import (
    MINUTE_S,
    bury,
    claim,
    complete,
    counts,
    crash,
    drain,
    ids_of,
    keys,
    lane,
    release,
    retry,
    submit,
    take,
    take_one,
    tenants_of,
)

STOPPED = [LaneState.PAUSED, LaneState.HELD]


@pytest.mark.parametrize("state", STOPPED)
async def test_a_stopped_lane_keeps_its_backlog_and_others_run(store: Store, state: LaneState) -> None:
    await submit(store, 5, tenant="a")
    await submit(store, 5, tenant="b")
    changed = await store.set_lane("orders", "a", LaneChange(state=state))
    assert (changed.state, changed.waiting) == (state, 5)
    assert set(tenants_of(await drain(store))) == {"b"}
    await store.set_lane("orders", "a", LaneChange(state=LaneState.RUNNING))
    assert len(await drain(store)) == 5


@pytest.mark.parametrize("state", STOPPED)
async def test_a_stopped_lane_accepts_and_waits(bench: Bench, store: Store, state: LaneState) -> None:
    await store.set_lane("orders", "a", LaneChange(state=state))
    await submit(store, 2, tenant="a")
    await submit(store, 2, tenant="a", delay_s=MINUTE_S)
    bench.advance(2 * MINUTE_S)
    claimed = await claim(store)
    assert (claimed.deliveries, claimed.next_at) == ((), None)
    await store.set_lane("orders", "a", LaneChange(state=LaneState.RUNNING))
    assert len(await drain(store)) == 4


async def test_what_comes_back_to_a_stopped_lane_waits(store: Store) -> None:
    ids = await submit(store, 3)
    retried, released, buried = await drain(store)
    await store.set_lane("orders", "acme", LaneChange(state=LaneState.PAUSED))
    await retry(store, retried)
    await release(store, released)
    await bury(store, buried)
    await store.redrive("orders", keys([buried.message.id]), actor="ann")
    assert await take(store) == []
    await store.set_lane("orders", "acme", LaneChange(state=LaneState.RUNNING))
    assert sorted(ids_of(await drain(store))) == sorted(ids)


async def test_a_resumed_lane_with_only_later_work_waits_for_it(bench: Bench, store: Store) -> None:
    (message_id,) = await submit(store, delay_s=10 * MINUTE_S)
    await store.set_lane("orders", "acme", LaneChange(state=LaneState.PAUSED))
    await store.set_lane("orders", "acme", LaneChange(state=LaneState.RUNNING))
    assert (await claim(store)).next_at is not None
    bench.advance(11 * MINUTE_S)
    assert ids_of(await take(store)) == [message_id]


async def test_a_cap_bounds_what_is_in_flight(store: Store) -> None:
    await store.set_lane("orders", "a", LaneChange(cap=2))
    await submit(store, 5, tenant="a")
    await submit(store, 4, tenant="b")
    taken = await drain(store)
    assert sorted(tenants_of(taken)) == list("aabbbb")
    held = [one for one in taken if one.message.tenant == "a"]
    await complete(store, held[0])
    assert tenants_of(await drain(store)) == ["a"]
    await retry(store, held[1], delay_s=MINUTE_S)
    assert tenants_of(await drain(store)) == ["a"]


async def test_a_cap_holds_within_one_turn_and_over_small_claims(store: Store) -> None:
    await store.set_lane("orders", "acme", LaneChange(cap=4))
    await submit(store, 10)
    assert len(await drain(store, limit=1)) == 4


async def test_a_release_makes_room_under_a_cap(store: Store) -> None:
    await store.set_lane("orders", "acme", LaneChange(cap=1))
    await submit(store, 2)
    delivery = await take_one(store)
    assert await take(store) == []
    await release(store, delivery)
    assert len(await drain(store)) == 1


async def test_a_cap_set_on_a_busy_lane_takes_effect(store: Store) -> None:
    await submit(store, 6)
    held = await take(store, 3)
    await store.set_lane("orders", "acme", LaneChange(cap=2))
    assert await take(store) == []
    await complete(store, *held[:2])
    assert len(await drain(store)) == 1


async def test_a_cap_of_zero_removes_the_cap(store: Store) -> None:
    assert (await store.set_lane("orders", "acme", LaneChange(cap=1))).cap == 1
    await submit(store, 3)
    await take(store)
    assert (await store.set_lane("orders", "acme", LaneChange(cap=0))).cap is None
    assert len(await drain(store)) == 2


async def test_a_change_leaves_what_it_does_not_name(store: Store) -> None:
    await store.set_lane("orders", "acme", LaneChange(weight=4, cap=7))
    changed = await store.set_lane("orders", "acme", LaneChange(state=LaneState.HELD))
    assert (changed.state, changed.weight, changed.cap) == (LaneState.HELD, 4, 7)
    assert await lane(store) == changed


async def test_the_counters_follow_each_move(store: Store) -> None:
    await submit(store, 6)
    first, second, third, fourth = await take(store, 4)
    await complete(store, first)
    await bury(store, second)
    await retry(store, third, delay_s=MINUTE_S)
    found = await lane(store)
    assert (found.waiting, found.in_flight, found.dead, found.done) == (3, 1, 1, 1)
    assert found.served == 4
    await crash(store, fourth)
    await store.redrive("orders", keys([second.message.id]), actor="ann")
    found = await lane(store)
    assert (found.waiting, found.in_flight, found.dead, found.done) == (5, 0, 0, 1)


async def test_last_served_is_the_instant_of_the_claim(bench: Bench, store: Store) -> None:
    await submit(store, 2)
    assert (await lane(store)).last_served_at is None
    await take(store, 1)
    first_at = (await lane(store)).last_served_at
    assert first_at is not None
    assert abs(first_at - store.now()) < 5_000
    bench.advance(MINUTE_S)
    await take(store, 1)
    second_at = (await lane(store)).last_served_at
    assert second_at is not None
    assert second_at - first_at >= 60_000


async def test_consecutive_counts_what_is_handed_out_in_a_row(store: Store) -> None:
    await submit(store, 9, tenant="a")
    await submit(store, 9, tenant="b")
    await take(store, 2)
    assert (await lane(store, "a")).consecutive == 2
    await take(store, 1)
    assert (await lane(store, "a")).consecutive == 3, "also when its turn has ended"
    assert tenants_of(await take(store, 1)) == ["b"]
    assert [one.consecutive for one in await store.lanes("orders")] == [0, 1]
    assert tenants_of(await take(store, 4)) == ["b", "b", "a", "a"]
    assert [one.consecutive for one in await store.lanes("orders")] == [2, 0]


async def test_a_tenant_that_is_alone_is_served_in_a_row_over_turns_and_claims(store: Store) -> None:
    await submit(store, 9)
    await take(store, 4)
    await complete(store, *await take(store, 3))
    assert (await lane(store)).consecutive == 7
    await crash(store, *await take(store, 1))
    await take_one(store, alone=True)
    assert (await lane(store)).consecutive == 9


async def test_rounds_waited_grow_while_a_lane_is_passed_over(store: Store) -> None:
    for tenant in "abc":
        await submit(store, 30, tenant=tenant)
    await take(store, 9)
    assert [(await lane(store, tenant)).rounds_waited for tenant in "abc"] == [0, 0, 0]
    await store.set_lane("orders", "a", LaneChange(state=LaneState.PAUSED))
    for _ in range(3):
        assert sorted(tenants_of(await take(store, 6))) == list("bbbccc")
    found = await lane(store, "a")
    assert (found.rounds_waited, found.priority) == (3, 2)
    assert (await lane(store, "b")).priority == 5
    await store.set_lane("orders", "a", LaneChange(state=LaneState.RUNNING))
    await take(store, 9)
    assert (await lane(store, "a")).rounds_waited == 0


async def test_a_new_lane_has_waited_no_round(store: Store) -> None:
    await submit(store, 30, tenant="a")
    await take(store, 20)
    await submit(store, 1, tenant="b")
    assert (await lane(store, "b")).rounds_waited == 0


async def test_a_lane_without_work_waits_for_no_round(store: Store) -> None:
    await submit(store, 1, tenant="a")
    await submit(store, 30, tenant="b")
    await take(store, 25)
    found = await lane(store, "a")
    assert (found.waiting, found.rounds_waited, found.priority) == (0, 0, 5)


async def test_lanes_are_listed_by_tenant_in_pages(store: Store) -> None:
    for tenant in ("d", "b", "e", "a", "c"):
        await submit(store, tenant=tenant)
    await submit(store, queue="mail", tenant="z")
    assert [one.tenant for one in await store.lanes("orders", limit=2)] == ["a", "b"]
    assert [one.tenant for one in await store.lanes("orders", after="b", limit=2)] == ["c", "d"]
    assert [one.tenant for one in await store.lanes("orders", after="d")] == ["e"]
    assert await store.lanes("orders", after="e") == []
    assert await store.lanes("unknown") == []


async def test_one_lane_reads_as_in_the_listing(store: Store) -> None:
    await submit(store, 3)
    await complete(store, *await take(store, 2))
    (listed,) = await store.lanes("orders")
    assert await store.lane("orders", "acme") == listed
    assert (listed.waiting, listed.done) == (1, 2)


async def test_a_lane_that_never_was_is_none(store: Store) -> None:
    await submit(store)
    assert await store.lane("orders", "stranger") is None
    assert await store.lane("unknown", "acme") is None
    assert [one.tenant for one in await store.lanes("orders")] == ["acme"]


async def test_queue_names_are_those_of_the_listing(store: Store) -> None:
    assert await store.queue_names() == []
    await submit(store, queue="orders")
    await store.set_queue("mail:send", LaneState.PAUSED)
    assert sorted(await store.queue_names()) == ["mail:send", "orders"]
    await complete(store, *await drain(store))
    assert sorted(await store.queue_names()) == ["mail:send", "orders"]


async def test_a_setting_alone_makes_a_lane_and_a_queue(store: Store) -> None:
    await store.set_lane("orders", "acme", LaneChange(weight=2))
    await store.set_queue("mail", LaneState.PAUSED)
    assert [one.queue for one in await store.queues()] == ["mail", "orders"]
    assert (await counts(store, "mail")).state is LaneState.PAUSED
    assert (await counts(store, "orders")).state is LaneState.RUNNING
    assert (await lane(store)).weight == 2


async def test_a_pause_is_seen_by_every_store(bench: Bench) -> None:
    operator, worker = await bench.open_store(), await bench.open_store()
    await submit(worker, 2)
    assert len(await take(worker, 1)) == 1
    await operator.set_lane("orders", "acme", LaneChange(state=LaneState.PAUSED))
    assert await take(worker) == []
    await operator.set_lane("orders", "acme", LaneChange(state=LaneState.RUNNING))
    await operator.set_queue("orders", LaneState.PAUSED)
    assert await take(worker) == []
