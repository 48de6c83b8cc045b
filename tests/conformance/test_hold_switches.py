"""Holds and people: a pause wins over a hold, and a person's word ends it."""

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
    drain,
    hold,
    retry,
    submit,
    take,
    take_one,
)
from tests.conformance.test_holds import Ending, held_lane, switches


async def test_a_paused_lane_stays_paused_when_a_hold_arrives(bench: Bench, store: Store) -> None:
    await submit(store, 2)
    delivery = await take_one(store)
    await store.set_lane("orders", "acme", LaneChange(state=LaneState.PAUSED))
    await hold(store, delivery)
    assert await switches(store) == (LaneState.PAUSED, None, None)
    bench.advance(2 * MINUTE_S)
    assert await take(store) == []
    await store.set_lane("orders", "acme", LaneChange(state=LaneState.RUNNING))
    assert len(await drain(store)) == 2


@pytest.mark.parametrize("ending", [complete, retry, bury, hold])
async def test_a_persons_hold_is_not_ended_by_any_verdict(bench: Bench, store: Store, ending: Ending) -> None:
    await submit(store, 2)
    delivery = await take_one(store)
    await store.set_lane("orders", "acme", LaneChange(state=LaneState.HELD))
    await ending(store, delivery)
    assert await switches(store) == (LaneState.HELD, None, None)
    bench.advance(2 * MINUTE_S)
    claimed = await claim(store)
    assert (claimed.deliveries, claimed.next_at) == ((), None)


@pytest.mark.parametrize("state", LaneState)
async def test_a_persons_word_ends_a_hold(bench: Bench, store: Store, state: LaneState) -> None:
    await held_lane(store)
    changed = await store.set_lane("orders", "acme", LaneChange(state=state))
    assert (changed.state, changed.probe_at, changed.held_reason) == (state, None, None)
    bench.advance(2 * MINUTE_S)
    assert len(await drain(store)) == (4 if state is LaneState.RUNNING else 0)


async def test_a_change_of_weight_or_cap_leaves_the_hold(bench: Bench, store: Store) -> None:
    await held_lane(store)
    held = await switches(store)
    await store.set_lane("orders", "acme", LaneChange(weight=2, cap=5))
    assert await switches(store) == held
    bench.advance(2 * MINUTE_S)
    assert len(await drain(store)) == 1


async def test_a_paused_queue_sends_no_probe(bench: Bench, store: Store) -> None:
    await held_lane(store)
    await store.set_queue("orders", LaneState.PAUSED)
    bench.advance(2 * MINUTE_S)
    assert await take(store) == []
    await store.set_queue("orders", LaneState.RUNNING)
    assert len(await take(store)) == 1
