"""Source.claim over tenants: whose turn it is, for how long, and what is charged to it."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from redrive.core.lanes import LaneChange
from redrive.core.message import Track
from redrive.core.ports import Claim
from redrive.core.store import Store
from tests.conformance.backends import Bench
from tests.conformance.makers import (
    MINUTE_S,
    bury,
    complete,
    drain,
    ids_of,
    keys,
    new_token,
    release,
    retry,
    submit,
    take,
    take_one,
    tenants_of,
)
from tests.conformance.turns import check_turns


async def order_of(store: Store, limit: int = 100) -> str:
    """The tenants of all that is due, in hand-out order."""
    return "".join(tenants_of(await drain(store, limit=limit)))


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 5, 7, 100])
async def test_turns_of_three_whatever_the_size_of_the_batch(store: Store, limit: int) -> None:
    await submit(store, 7, tenant="a")
    await submit(store, 7, tenant="b")
    assert await order_of(store, limit) == "aaabbbaaabbbab"


async def test_three_tenants_take_turns_until_all_is_handed_out(store: Store) -> None:
    for tenant, count in (("a", 5), ("b", 2), ("c", 8)):
        await submit(store, count, tenant=tenant)
    assert await order_of(store) == "aaabbcccaaccccc"


async def test_a_single_tenant_is_not_slowed_down(store: Store) -> None:
    await submit(store, 50)
    assert len(await take(store, 50)) == 50


async def test_the_quantum_is_the_claimers_choice(store: Store) -> None:
    await submit(store, 4, tenant="a")
    await submit(store, 4, tenant="b")
    claimed = await store.claim(Claim("orders", new_token(), 8, 30.0, quantum=1))
    assert "".join(tenants_of(claimed.deliveries)) == "abababab"


async def test_one_message_behind_ten_thousand_of_another_comes_within_four(store: Store) -> None:
    await submit(store, 10_000, tenant="a")
    (message_id,) = await submit(store, tenant="b")
    assert message_id in ids_of(await take(store, 4))


async def test_many_tenants_are_each_served_within_the_bound(store: Store) -> None:
    ready = {f"t{number:02}": 1 + number * 7 % 9 for number in range(20)}
    weights = {"t03": 2, "t08": 3}
    for tenant, weight in weights.items():
        await store.set_lane("orders", tenant, LaneChange(weight=weight))
    for tenant, count in ready.items():
        await submit(store, count, tenant=tenant)
    taken = await drain(store, limit=7)
    check_turns(tenants_of(taken), ready, weights)
    assert Counter(tenants_of(taken)) == ready


async def test_a_weight_multiplies_the_turn(store: Store) -> None:
    await store.set_lane("orders", "a", LaneChange(weight=2))
    await submit(store, 9, tenant="a")
    await submit(store, 6, tenant="b")
    assert await order_of(store, 4) == "aaaaaabbbaaabbb"


async def test_a_weight_takes_effect_on_what_already_waits(store: Store) -> None:
    await submit(store, 9, tenant="a")
    await submit(store, 6, tenant="b")
    await store.set_lane("orders", "a", LaneChange(weight=2))
    assert Counter((await order_of(store))[:9]) == {"a": 6, "b": 3}


async def test_retries_are_charged_to_their_tenants_turn(bench: Bench, store: Store) -> None:
    await submit(store, 10, tenant="a")
    await retry(store, *await drain(store), delay_s=MINUTE_S)
    bench.advance(2 * MINUTE_S)
    await submit(store, 10, tenant="a")
    await submit(store, 10, tenant="b")
    order = tenants_of(await drain(store))
    check_turns(order, {"a": 20, "b": 10})
    assert Counter(order[:7])["b"] >= 1


async def test_many_due_retries_of_one_tenant_do_not_delay_another(bench: Bench, store: Store) -> None:
    await submit(store, 500, tenant="a", delay_s=MINUTE_S)
    (message_id,) = await submit(store, tenant="b", delay_s=2 * MINUTE_S)
    bench.advance(3 * MINUTE_S)
    assert message_id in ids_of(await take(store, 4))


async def test_redrives_are_charged_to_their_tenants_turn(store: Store) -> None:
    ids = await submit(store, 10, tenant="a")
    await bury(store, *await drain(store))
    await store.redrive("orders", keys(ids), actor="ann")
    await submit(store, 10, tenant="a")
    await submit(store, 10, tenant="b")
    order = tenants_of(await drain(store))
    check_turns(order, {"a": 20, "b": 10})
    assert Counter(order[:7])["b"] >= 1


async def test_released_messages_do_not_bring_a_second_turn(store: Store) -> None:
    await submit(store, 6, tenant="a")
    await submit(store, 6, tenant="b")
    first = await take(store, 3)
    await release(store, *first)
    assert tenants_of(first) + tenants_of(await take(store, 3)) == list("aaabbb")


async def test_a_tenant_that_comes_late_takes_its_place_at_the_end(store: Store) -> None:
    await submit(store, 6, tenant="a")
    await submit(store, 6, tenant="b")
    assert tenants_of(await take(store, 1)) == ["a"]
    await submit(store, 3, tenant="c")
    assert await order_of(store) == "aabbbcccaaabbb"


async def test_a_drained_tenant_comes_back_at_the_end(store: Store) -> None:
    await submit(store, 2, tenant="a")
    await submit(store, 6, tenant="b")
    assert tenants_of(await take(store, 2)) == ["a", "a"]
    await submit(store, 2, tenant="a")
    assert (await order_of(store))[:3] == "bbb"


async def test_turns_hold_across_claimers(bench: Bench) -> None:
    stores = [await bench.open_store(), await bench.open_store()]
    await submit(stores[0], 12, tenant="a")
    await submit(stores[0], 12, tenant="b")
    order: list[str] = []
    turn = 0
    while batch := await take(stores[turn % 2], 2):
        order += tenants_of(batch)
        turn += 1
    assert "".join(order) == "aaabbb" * 4


async def test_claimers_at_once_each_get_a_fair_part(bench: Bench) -> None:
    stores = [await bench.open_store(), await bench.open_store()]
    await submit(stores[0], 60, tenant="a")
    await submit(stores[0], 6, tenant="b")
    batches = await asyncio.gather(*(take(store, 6) for store in stores))
    assert Counter(tenants_of([one for batch in batches for one in batch])) == {"a": 6, "b": 6}


async def test_bytes_end_a_batch_and_the_turn_goes_on_in_the_next(store: Store) -> None:
    await submit(store, 4, tenant="a", body=bytes(100))
    await submit(store, 4, tenant="b", body=bytes(100))
    order: list[str] = []
    while batch := (await store.claim(Claim("orders", new_token(), 10, 30.0, max_bytes=200))).deliveries:
        assert len(batch) <= 2
        order += tenants_of(batch)
    assert "".join(order) == "aaabbbab"


@pytest.mark.parametrize(("crowd", "lone"), [(Track.BULK, Track.MAIN), (Track.MAIN, Track.BULK)])
async def test_a_message_does_not_wait_behind_another_track_of_its_tenant(
    store: Store, crowd: Track, lone: Track
) -> None:
    await submit(store, 100, track=crowd)
    (message_id,) = await submit(store, track=lone)
    assert message_id in ids_of(await take(store, 3))


async def test_a_redriven_message_does_not_wait_behind_fresh_ones(store: Store) -> None:
    (message_id,) = await submit(store)
    await bury(store, await take_one(store))
    await submit(store, 100, delay_s=-MINUTE_S)
    await store.redrive("orders", keys([message_id]), actor="ann")
    assert message_id in ids_of(await take(store, 3))


async def test_redriven_messages_do_not_keep_fresh_ones_waiting(store: Store) -> None:
    ids = await submit(store, 50, delay_s=-MINUTE_S)
    await bury(store, *await drain(store))
    await store.redrive("orders", keys(ids), actor="ann")
    (message_id,) = await submit(store)
    assert message_id in ids_of(await take(store, 3))


@pytest.mark.parametrize("limit", [1, 2, 5])
async def test_tracks_share_a_turn_also_across_claims(store: Store, limit: int) -> None:
    await submit(store, 20, track=Track.BULK)
    await submit(store, 20, track=Track.MAIN)
    taken: list[Track] = []
    while len(taken) < 20:
        batch = await take(store, limit)
        taken += [one.message.track for one in batch]
        await complete(store, *batch)
    assert Counter(taken[:20]) == {Track.BULK: 10, Track.MAIN: 10}


async def test_tracks_do_not_lengthen_a_turn(store: Store) -> None:
    for track in (Track.MAIN, Track.BULK):
        await submit(store, 10, tenant="a", track=track)
    await submit(store, 10, tenant="b")
    check_turns(tenants_of(await drain(store)), {"a": 20, "b": 10})
