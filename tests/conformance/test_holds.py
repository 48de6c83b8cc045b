"""Verdict Hold: the lane waits and sends one probe at a time, until a message of it gets through."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from redrive.core.lanes import LaneChange, LaneState
from redrive.core.lifecycle import State
from redrive.core.message import Delivery
from redrive.core.store import Store
from redrive.core.verdict import Complete, HoldLane, Reason, Settlement
from tests.conformance.backends import Bench
from tests.conformance.makers import (
    DAY_S,
    MINUTE_S,
    account,
    bury,
    claim,
    complete,
    counts,
    crash,
    drain,
    hold,
    ids_of,
    lane,
    new_token,
    release,
    retry,
    soon,
    submit,
    take,
    take_one,
    tenants_of,
)

REASON = "535 wrong password"
RUNNING = (LaneState.RUNNING, None, None)
Ending = Callable[..., Awaitable[object]]


async def held_lane(store: Store, count: int = 4) -> list[str]:
    """A lane with `count` messages waiting, of which the first one's attempt held it for a minute."""
    ids = await submit(store, count)
    await hold(store, await take_one(store))
    return ids


async def switches(store: Store) -> tuple[LaneState, int | None, str | None]:
    found = await lane(store)
    return found.state, found.probe_at, found.held_reason


async def test_a_hold_gives_the_attempt_back_and_holds_the_lane(store: Store) -> None:
    (message_id, _) = await submit(store, 2)
    delivery = await take_one(store)
    probe_at = soon(store, MINUTE_S)
    assert await store.settle([Settlement(delivery, HoldLane(probe_at, REASON))]) == set()
    found = await account(store, message_id)
    assert (found.state, found.progress.attempts, found.failures) == (State.WAITING, 0, ())
    assert abs(found.progress.due_at - store.now()) < 5_000
    assert await switches(store) == (LaneState.HELD, probe_at, REASON)
    standing = await lane(store)
    assert (standing.waiting, standing.in_flight) == (2, 0)
    assert await store.lane("orders", "acme") == standing


async def test_a_held_lane_stands_on_the_timer_until_its_probe(bench: Bench, store: Store) -> None:
    await held_lane(store)
    await submit(store, 2)
    await submit(store, 2, tenant="other")
    assert set(tenants_of(await drain(store))) == {"other"}
    claimed = await claim(store)
    assert (claimed.deliveries, claimed.next_at) == ((), (await lane(store)).probe_at)
    bench.advance(30)
    assert await take(store) == []
    bench.advance(45)
    assert len(await take(store)) == 1


async def test_a_held_lane_hands_out_one_message_at_a_time(bench: Bench, store: Store) -> None:
    await held_lane(store)
    await store.set_lane("orders", "acme", LaneChange(weight=3, cap=10))
    bench.advance(2 * MINUTE_S)
    (probe,) = await take(store)
    assert probe.probe
    claimed = await claim(store)
    assert (claimed.deliveries, claimed.next_at) == ((), None)
    await hold(store, probe)
    assert await take(store) == []
    bench.advance(2 * MINUTE_S)
    assert [one.probe for one in await drain(store)] == [True]


async def test_a_running_lane_sends_no_probes(store: Store) -> None:
    await submit(store, 3)
    assert [one.probe for one in await drain(store)] == [False] * 3


async def test_a_repeated_claim_says_again_which_is_the_probe(bench: Bench, store: Store) -> None:
    await held_lane(store)
    bench.advance(2 * MINUTE_S)
    await submit(store, tenant="other")
    token = new_token()
    first = await claim(store, token=token)
    assert {one.message.tenant: one.probe for one in first.deliveries} == {"acme": True, "other": False}
    again = await claim(store, token=token)
    assert again.deliveries == first.deliveries


@pytest.mark.parametrize("ending", [complete, retry, bury])
async def test_a_message_that_gets_through_ends_the_hold(bench: Bench, store: Store, ending: Ending) -> None:
    await held_lane(store, 8)
    bench.advance(2 * MINUTE_S)
    await ending(store, await take_one(store))
    assert await switches(store) == RUNNING
    backlog = await drain(store)
    assert len(backlog) == 8 if ending is retry else 7
    assert not any(one.probe for one in backlog)


async def test_a_release_leaves_the_hold_as_it_is(bench: Bench, store: Store) -> None:
    await held_lane(store)
    held = await switches(store)
    bench.advance(2 * MINUTE_S)
    await release(store, await take_one(store))
    assert await switches(store) == held
    assert len(await drain(store)) == 1


async def test_a_later_hold_takes_the_place_of_the_first(bench: Bench, store: Store) -> None:
    await held_lane(store)
    bench.advance(2 * MINUTE_S)
    await hold(store, await take_one(store), probe_s=10 * MINUTE_S, why="454 still wrong")
    assert (await lane(store)).held_reason == "454 still wrong"
    bench.advance(5 * MINUTE_S)
    assert await take(store) == []
    bench.advance(6 * MINUTE_S)
    assert len(await take(store)) == 1


async def test_what_was_in_flight_when_the_hold_came_settles_normally(bench: Bench, store: Store) -> None:
    await submit(store, 6)
    first, second, third, fourth = await take(store, 4)
    await hold(store, first)
    await hold(store, second, probe_s=2 * MINUTE_S)
    await release(store, third)
    assert (await lane(store)).in_flight == 1
    bench.advance(3 * MINUTE_S)
    assert await take(store) == [], "the probe waits for what is in flight"
    assert await complete(store, fourth) == set()
    assert await switches(store) == RUNNING
    assert len(await drain(store)) == 5


async def test_the_last_of_a_lane_that_comes_back_lets_the_probe_go(bench: Bench, store: Store) -> None:
    await submit(store, 3)
    first, second = await take(store, 2)
    await hold(store, first)
    bench.advance(2 * MINUTE_S)
    assert await take(store) == []
    await release(store, second)
    assert [one.probe for one in await drain(store)] == [True]


async def test_a_hold_stands_whatever_else_came_in_the_same_call(store: Store) -> None:
    await submit(store, 5)
    first, second, third = await take(store, 3)
    verdicts = [HoldLane(soon(store, MINUTE_S), REASON), Complete(), Complete()]
    settlements = [Settlement(*pair) for pair in zip((first, second, third), verdicts, strict=True)]
    assert await store.settle(settlements) == set()
    assert (await lane(store)).state is LaneState.HELD
    assert await take(store) == []


async def test_a_stale_hold_holds_nothing(bench: Bench, store: Store) -> None:
    (message_id,) = await submit(store)
    late = await take_one(store)
    bench.advance(2 * MINUTE_S)
    await store.reclaim("orders", new_token(), 30, 10)
    assert await hold(store, late) == {message_id}
    assert await switches(store) == RUNNING


async def test_a_hold_of_the_only_message_is_probed_with_it(bench: Bench, store: Store) -> None:
    ids = await held_lane(store, 1)
    bench.advance(2 * MINUTE_S)
    (probe,) = await take(store)
    assert ([probe.message.id], probe.probe) == (ids, True)
    await complete(store, probe)
    assert await switches(store) == RUNNING


async def test_a_held_lane_with_only_later_work_waits_for_it(bench: Bench, store: Store) -> None:
    (first,) = await submit(store)
    (later,) = await submit(store, delay_s=60 * MINUTE_S)
    await hold(store, await take_one(store))
    await store.cancel("orders", [first], actor="ann")
    bench.advance(2 * MINUTE_S)
    assert await take(store) == []
    bench.advance(60 * MINUTE_S)
    assert [(one.message.id, one.probe) for one in await drain(store)] == [(later, True)]


async def test_what_comes_to_a_held_lane_waits_with_it(bench: Bench, store: Store) -> None:
    ids = await held_lane(store, 1)
    ids += await submit(store, 2)
    (later,) = await submit(store, delay_s=DAY_S)
    await store.run_now("orders", [later])
    assert await take(store) == []
    assert (await counts(store)).pending == 4
    bench.advance(2 * MINUTE_S)
    await complete(store, await take_one(store))
    assert len(await drain(store)) == 3


async def test_suspects_of_a_held_lane_wait_behind_the_probe(bench: Bench, store: Store) -> None:
    await submit(store, 3)
    first, second = await take(store, 2)
    await crash(store, first)
    await hold(store, second)
    bench.advance(2 * MINUTE_S)
    refused = await claim(store, alone=True)
    assert (refused.deliveries, refused.suspects) == ((), False)
    claimed = await claim(store)
    assert (len(claimed.deliveries), claimed.suspects) == (1, False)
    await complete(store, *claimed.deliveries)
    assert (await claim(store)).suspects
    assert ids_of(await take(store, alone=True)) == [first.message.id]


async def test_a_suspect_is_the_probe_where_nothing_else_is_left(bench: Bench, store: Store) -> None:
    """Otherwise the lane would wait for ever once the worker of its only probe was lost."""
    ids = await held_lane(store, 1)
    bench.advance(2 * MINUTE_S)
    await crash(store, await take_one(store))
    assert (await lane(store)).state is LaneState.HELD
    claimed = await claim(store)
    assert (claimed.deliveries, claimed.suspects) == ((), True)
    (probe,) = await take(store, alone=True)
    assert ([probe.message.id], probe.probe) == (ids, True)
    await hold(store, probe)
    assert await take(store, alone=True) == []
    bench.advance(2 * MINUTE_S)
    await complete(store, await take_one(store, alone=True))
    assert await switches(store) == RUNNING


async def expired_of_held_lane(bench: Bench, store: Store) -> Delivery:
    await submit(store, ttl_s=MINUTE_S, delay_s=10)
    await held_lane(store, 2)
    bench.advance(2 * MINUTE_S)
    (expired,) = await store.reclaim("orders", new_token(), 30, 10)
    return expired


async def test_burying_what_expired_unheard_leaves_the_hold(bench: Bench, store: Store) -> None:
    expired = await expired_of_held_lane(bench, store)
    assert not expired.probe
    assert await bury(store, expired, reason=Reason.EXPIRED) == set()
    assert (await lane(store)).state is LaneState.HELD
    assert [one.probe for one in await drain(store)] == [True]


async def test_a_lost_probe_leaves_the_hold(bench: Bench, store: Store) -> None:
    await held_lane(store, 2)
    bench.advance(2 * MINUTE_S)
    await take_one(store)
    bench.advance(2 * MINUTE_S)
    (lost,) = await store.reclaim("orders", new_token(), 30, 10)
    assert not lost.probe
    await bury(store, lost, reason=Reason.WORKER_LOST)
    assert (await lane(store)).state is LaneState.HELD


async def test_a_reason_of_any_text_is_kept_within_bounds(store: Store) -> None:
    await submit(store)
    await hold(store, await take_one(store), why="\udce4\x00 " + "é" * 5_000)
    reason = (await lane(store)).held_reason
    assert reason is not None
    assert reason.startswith("?? éé")
    assert len(reason.encode()) <= 1_000


async def test_a_hold_is_seen_by_every_store(bench: Bench) -> None:
    one, other = await bench.open_store(), await bench.open_store()
    await submit(one, 3)
    await hold(one, await take_one(one))
    assert await take(other) == []
    bench.advance(2 * MINUTE_S)
    await complete(other, await take_one(other))
    assert len(await drain(one)) == 2
