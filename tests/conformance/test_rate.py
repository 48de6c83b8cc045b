"""A lane's own rate: so many hand-outs a period, whoever asks, and on what waits already."""

from __future__ import annotations

import asyncio

import pytest

from redrive.core.lanes import LaneChange, LaneState
from redrive.core.limits import Rate
from redrive.core.store import Store
from tests.conformance.backends import Bench
from tests.conformance.makers import (
    MINUTE_S,
    claim,
    complete,
    crash,
    dead,
    drain,
    hold,
    ids_of,
    keys,
    lane,
    release,
    submit,
    take,
    take_one,
    tenants_of,
)

TWO = Rate(2, MINUTE_S)


async def set_rate(store: Store, rate: Rate | None, tenant: str = "acme") -> None:
    await store.set_lane("orders", tenant, LaneChange(rate=rate, unlimited=rate is None))


async def test_a_lane_hands_out_its_rate_and_the_rest_after_the_period(bench: Bench, store: Store) -> None:
    ids = await submit(store, 5)
    await set_rate(store, TWO)
    assert ids_of(await drain(store)) == ids[:2]
    bench.advance(MINUTE_S - 5)
    assert await take(store) == []
    bench.advance(10)
    assert ids_of(await drain(store)) == ids[2:4]
    bench.advance(2 * MINUTE_S)
    assert ids_of(await drain(store)) == ids[4:]


async def test_a_claim_that_finds_the_rate_used_up_says_when_to_come_again(store: Store) -> None:
    await submit(store, 3)
    await set_rate(store, TWO)
    claimed = await claim(store)
    assert len(claimed.deliveries) == 2
    assert claimed.next_at is not None
    assert abs(claimed.next_at - store.now() - 1000 * MINUTE_S) < 5_000
    again = await claim(store)
    assert (again.deliveries, again.next_at) == ((), claimed.next_at)


async def test_finishing_work_does_not_free_a_used_up_rate(bench: Bench, store: Store) -> None:
    ids = await submit(store, 6)
    await set_rate(store, TWO)
    first, second = await drain(store)
    await complete(store, first)
    await release(store, second)
    await submit(store)
    assert await take(store) == []
    bench.advance(MINUTE_S + 5)
    assert set(ids_of(await drain(store))) <= {*ids[1:]}


async def test_a_rate_holds_back_only_its_own_tenant(store: Store) -> None:
    await submit(store, 8, tenant="slow")
    await submit(store, 8, tenant="free")
    await set_rate(store, TWO, "slow")
    order = tenants_of(await drain(store))
    assert (order.count("slow"), order.count("free")) == (2, 8)


async def test_a_rate_ends_the_turn_of_a_backlog_that_is_already_running(store: Store) -> None:
    ids = await submit(store, 20)
    assert len(await take(store, 4)) == 4
    await set_rate(store, TWO)
    assert ids_of(await drain(store)) == ids[4:6]


async def test_without_its_rate_a_lane_runs_on_at_once(store: Store) -> None:
    ids = await submit(store, 5)
    await set_rate(store, TWO)
    await drain(store)
    await set_rate(store, None)
    assert (await lane(store)).rate is None
    assert ids_of(await drain(store)) == ids[2:]


async def test_a_raised_rate_lets_the_difference_go_in_the_running_period(store: Store) -> None:
    ids = await submit(store, 9)
    await set_rate(store, TWO)
    await drain(store)
    await set_rate(store, Rate(5, MINUTE_S))
    assert ids_of(await drain(store)) == ids[2:5]


async def test_a_lowered_rate_counts_what_the_period_has_handed_out(bench: Bench, store: Store) -> None:
    ids = await submit(store, 9)
    await set_rate(store, Rate(5, MINUTE_S))
    await take(store, 3)
    await set_rate(store, TWO)
    assert await take(store) == []
    bench.advance(MINUTE_S + 5)
    assert ids_of(await drain(store)) == ids[3:5]


async def test_the_rate_is_told_with_the_lane_and_other_changes_leave_it(store: Store) -> None:
    found = await store.set_lane("orders", "acme", LaneChange(rate=Rate(20, 0.5)))
    assert found.rate == Rate(20, 0.5)
    changed = await store.set_lane("orders", "acme", LaneChange(weight=2, cap=4))
    assert (changed.rate, changed.weight, changed.cap) == (Rate(20, 0.5), 2, 4)
    assert (await lane(store)).rate == Rate(20, 0.5)
    one = await store.lane("orders", "acme")
    assert one is not None
    assert one.rate == Rate(20, 0.5)


async def test_two_stores_together_never_pass_a_lanes_rate(bench: Bench) -> None:
    stores = [await bench.open_store(), await bench.open_store()]
    await submit(stores[0], 60)
    await set_rate(stores[0], Rate(25, MINUTE_S))
    taken = await asyncio.gather(*(take(stores[number % 2], 7) for number in range(10)))
    assert sum(len(batch) for batch in taken) == 25


async def test_suspects_count_for_the_rate_and_wait_for_it(bench: Bench, store: Store) -> None:
    ids = await submit(store, 3)
    await crash(store, *await drain(store))
    await set_rate(store, TWO)
    for expected in ids[:2]:
        assert ids_of(await take(store, 1, alone=True)) == [expected]
    assert await take(store, 1, alone=True) == []
    assert not (await claim(store)).suspects
    bench.advance(MINUTE_S + 5)
    assert (await claim(store)).suspects
    assert ids_of(await take(store, 1, alone=True)) == [ids[2]]


async def test_a_suspect_that_takes_the_last_of_a_rate_leaves_nothing_due_before_its_end(
    store: Store,
) -> None:
    await submit(store, 3)
    await crash(store, await take_one(store))
    await set_rate(store, Rate(1, MINUTE_S))
    claimed = await claim(store, 1, alone=True)
    assert len(claimed.deliveries) == 1
    assert claimed.next_at is not None
    assert abs(claimed.next_at - store.now() - 1000 * MINUTE_S) < 5_000


async def test_a_cap_and_a_rate_hold_together(bench: Bench, store: Store) -> None:
    ids = await submit(store, 9)
    await store.set_lane("orders", "acme", LaneChange(cap=2, rate=Rate(3, MINUTE_S)))
    first = await drain(store)
    assert ids_of(first) == ids[:2]
    await complete(store, *first)
    assert ids_of(await drain(store)) == ids[2:3]
    bench.advance(MINUTE_S + 5)
    assert ids_of(await drain(store)) == ids[3:4]


@pytest.mark.parametrize("state", [LaneState.PAUSED, LaneState.HELD])
async def test_a_stopped_lane_stays_stopped_when_its_period_ends(
    bench: Bench, store: Store, state: LaneState
) -> None:
    ids = await submit(store, 4)
    await set_rate(store, TWO)
    await drain(store)
    await store.set_lane("orders", "acme", LaneChange(state=state))
    bench.advance(2 * MINUTE_S)
    assert await take(store) == []
    await store.set_lane("orders", "acme", LaneChange(state=LaneState.RUNNING))
    assert ids_of(await drain(store)) == ids[2:]


async def test_a_probe_waits_for_the_rate(bench: Bench, store: Store) -> None:
    await submit(store, 4)
    await set_rate(store, Rate(1, 10 * MINUTE_S))
    await hold(store, await take_one(store))
    bench.advance(2 * MINUTE_S)
    assert await take(store) == []
    bench.advance(9 * MINUTE_S)
    (probe,) = await drain(store)
    assert probe.probe


async def test_redriven_letters_wait_for_the_rate(bench: Bench, store: Store) -> None:
    ids = await dead(store, 5)
    await set_rate(store, TWO)
    assert await store.redrive("orders", keys(ids), actor="ann") == set(ids)
    assert len(await drain(store)) == 2
    bench.advance(MINUTE_S + 5)
    assert len(await drain(store)) == 2


async def test_a_claims_own_rate_and_a_lanes_rate_hold_together(store: Store) -> None:
    await submit(store, 9, tenant="slow")
    await submit(store, 9, tenant="free")
    await set_rate(store, TWO, "slow")
    order = []
    while batch := (await claim(store, 4, rate=Rate(7, MINUTE_S))).deliveries:
        order += tenants_of(batch)
    assert (order.count("slow"), len(order)) == (2, 7)
