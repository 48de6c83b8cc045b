"""Parents and children: a body that many share is kept once, as long as one of them needs it."""

from __future__ import annotations

import pytest

from redrive.core.lifecycle import Move, State
from redrive.core.message import Lapse
from redrive.core.ports import Cleanup
from redrive.core.settings import FinishedSettings
from redrive.core.store import Store
from tests.conformance.backends import Bench
from tests.conformance.families import CONTENT, body_of, fan_out, running_parent
from tests.conformance.makers import (
    DAY_S,
    MINUTE_S,
    account,
    append,
    bury,
    claim,
    complete,
    counts,
    crash,
    drain,
    entry,
    failure,
    ids_of,
    keys,
    lane,
    new_token,
    retry,
    submit,
    take_one,
)


async def clean_up(bench: Bench, store: Store) -> None:
    bench.advance(30 * DAY_S)
    await store.cleanup(Cleanup(finished_before_at=store.now(), keep=0))


async def test_a_child_comes_with_its_parents_body(store: Store) -> None:
    parent = await running_parent(store)
    assert (parent.message.parent, parent.parent_body) == (None, None)
    children = await fan_out(store, parent)
    deliveries = await drain(store)
    assert ids_of(deliveries) == children
    for one in deliveries:
        assert (one.message.parent, one.parent_body) == (parent.message.id, CONTENT)
        assert (one.message.body, one.unreadable) == (b"to one", None)


async def test_children_of_several_parents_come_with_their_own_beside_messages_without(store: Store) -> None:
    first, second = entry(store, body=b"first"), entry(store, body=b"second")
    await append(store, first, second)
    parents = await drain(store)
    made = [entry(store, parent=one.message.id) for one in (first, second, first)]
    await append(store, *made, entry(store))
    await complete(store, *parents)
    found = [one.parent_body for one in await drain(store)]
    assert found == [b"first", b"second", b"first", None]


async def test_a_repeated_claim_and_a_reclaim_carry_the_parents_body_too(bench: Bench, store: Store) -> None:
    await fan_out(store, await running_parent(store), 2)
    token = new_token()
    first = await claim(store, token=token)
    assert await claim(store, token=token) == first
    bench.advance(2 * MINUTE_S)
    taken = await store.reclaim("orders", new_token(), 30, 10)
    assert [(one.parent_body, one.lapse) for one in taken] == [(CONTENT, Lapse.LOST)] * 2


async def test_an_expired_child_is_reclaimed_with_its_parents_body(bench: Bench, store: Store) -> None:
    await fan_out(store, await running_parent(store), 1, ttl_s=MINUTE_S)
    bench.advance(2 * MINUTE_S)
    (expired,) = await store.reclaim("orders", new_token(), 30, 10)
    assert (expired.parent_body, expired.lapse) == (CONTENT, Lapse.EXPIRED)


async def test_a_suspect_child_comes_with_its_parents_body(store: Store) -> None:
    await fan_out(store, await running_parent(store), 1)
    await crash(store, await take_one(store))
    assert (await take_one(store, alone=True)).parent_body == CONTENT


async def test_the_body_of_a_done_parent_goes_with_its_last_child(store: Store) -> None:
    parent = await running_parent(store)
    await fan_out(store, parent)
    first, second, third = await drain(store)
    await complete(store, first, second)
    found = await account(store, parent.message.id)
    assert (found.state, found.message.body) == (State.DONE, CONTENT)
    await complete(store, third)
    assert await body_of(store, parent.message.id) == b""


async def test_a_parent_that_is_not_done_keeps_its_body_without_open_children(store: Store) -> None:
    parent = await running_parent(store)
    await submit(store, parent=parent.message.id)
    await complete(store, await take_one(store))
    assert await body_of(store, parent.message.id) == CONTENT
    await retry(store, parent)
    again = await take_one(store)
    assert again.message.body == CONTENT
    await complete(store, again)
    assert await body_of(store, parent.message.id) == b""


@pytest.mark.parametrize("parent_first", [True, False])
async def test_parent_and_last_child_may_be_settled_in_one_call(store: Store, parent_first: bool) -> None:
    parent = await running_parent(store)
    await submit(store, parent=parent.message.id)
    child = await take_one(store)
    assert await complete(store, *((parent, child) if parent_first else (child, parent))) == set()
    assert await body_of(store, parent.message.id) == b""


async def test_a_stale_settle_closes_no_child(bench: Bench, store: Store) -> None:
    parent = await running_parent(store)
    await fan_out(store, parent, 2)
    late = await drain(store)
    bench.advance(2 * MINUTE_S)
    await store.reclaim("orders", new_token(), 30, 10)
    assert len(await complete(store, *late, *late)) == 2
    assert await body_of(store, parent.message.id) == CONTENT


async def test_a_dead_child_keeps_the_body_also_when_it_is_discarded(bench: Bench, store: Store) -> None:
    parent = await running_parent(store)
    dead, discarded = await fan_out(store, parent, 2)
    await bury(store, *await drain(store))
    await store.remove("orders", keys([discarded]), Move.DISCARD, actor="ann")
    await clean_up(bench, store)
    assert await body_of(store, parent.message.id) == CONTENT
    await store.redrive("orders", keys([dead]), actor="ann")
    redriven = await take_one(store)
    assert redriven.parent_body == CONTENT
    await complete(store, redriven)
    assert await body_of(store, parent.message.id) == CONTENT


async def test_a_redriven_child_that_gets_through_is_the_last_one(store: Store) -> None:
    parent = await running_parent(store)
    (child,) = await fan_out(store, parent, 1)
    await bury(store, await take_one(store))
    await store.redrive("orders", keys([child]), actor="ann")
    await complete(store, await take_one(store))
    assert await body_of(store, parent.message.id) == b""


@pytest.mark.parametrize("verb", ["cancel", "purge"])
async def test_a_removed_child_is_finished(store: Store, verb: str) -> None:
    parent = await running_parent(store)
    children = await fan_out(store, parent, 2, delay_s=DAY_S)
    if verb == "cancel":
        await store.cancel("orders", children[:1], actor="ann")
        assert await body_of(store, parent.message.id) == CONTENT
        await store.cancel("orders", children, actor="ann")
    else:
        assert await store.purge("orders", actor="ann") == 2
    assert await body_of(store, parent.message.id) == b""


async def test_a_cancelled_parent_keeps_its_body_for_its_open_children(store: Store) -> None:
    parent = await running_parent(store)
    await submit(store, parent=parent.message.id)
    await retry(store, parent, delay_s=DAY_S)
    await store.cancel("orders", [parent.message.id], actor="ann")
    child = await take_one(store)
    assert child.parent_body == CONTENT
    await complete(store, child)
    found = await account(store, parent.message.id)
    assert (found.state, found.message.body) == (State.REMOVED, b"")


async def test_a_dead_parent_keeps_its_body(store: Store) -> None:
    parent = await running_parent(store)
    await submit(store, parent=parent.message.id)
    await bury(store, parent)
    await complete(store, await take_one(store))
    assert await body_of(store, parent.message.id) == CONTENT


async def test_cleanup_leaves_a_done_parent_and_its_failures_to_its_open_children(
    bench: Bench, store: Store
) -> None:
    parent = await running_parent(store)
    await retry(store, parent)
    await fan_out(store, await take_one(store), 2, delay_s=60 * DAY_S)
    await clean_up(bench, store)
    found = await account(store, parent.message.id)
    assert (found.message.body, len(found.failures)) == (CONTENT, 1)
    bench.advance(60 * DAY_S)
    await complete(store, *await drain(store))
    await clean_up(bench, store)
    assert await store.get(parent.message.id) is None
    assert await store.family(parent.message.id) == []


async def test_the_age_of_a_parents_record_counts_from_its_own_end(bench: Bench, store: Store) -> None:
    parent = await running_parent(store)
    (child,) = await fan_out(store, parent, 1, ttl_s=30 * DAY_S)
    bench.advance(DAY_S)
    between = store.now()
    bench.advance(DAY_S)
    await complete(store, await take_one(store))
    assert await store.cleanup(Cleanup(finished_before_at=between)) == 1
    assert await store.get(parent.message.id) is None
    assert await store.family(parent.message.id) == [await account(store, child)]


async def test_open_families_do_not_stand_in_the_way_of_cleanup(bench: Bench, store: Store) -> None:
    for _ in range(3):
        await fan_out(store, await running_parent(store), 1, delay_s=60 * DAY_S)
    (other,) = await submit(store)
    await complete(store, await take_one(store))
    bench.advance(DAY_S)
    assert await store.cleanup(Cleanup(finished_before_at=store.now(), limit=1)) == 1
    assert await store.get(other) is None


async def test_a_family_lives_where_no_finished_record_is_kept(bench: Bench) -> None:
    store = await bench.open_store(FinishedSettings(keep=0))
    parent = await running_parent(store)
    await fan_out(store, parent, 2)
    first, second = await drain(store)
    assert (first.parent_body, second.parent_body) == (CONTENT, CONTENT)
    await complete(store, first)
    bench.advance(DAY_S / 2)
    await store.cleanup(Cleanup(finished_before_at=0, keep=0))
    assert await store.get(first.message.id) is None
    assert await body_of(store, parent.message.id) == CONTENT
    await complete(store, second)
    bench.advance(DAY_S)
    await store.cleanup(Cleanup(finished_before_at=0, keep=0))
    assert await store.get(parent.message.id) is None


async def test_a_claims_bytes_count_the_parents_body_with_each_child(store: Store) -> None:
    await submit(store, body=bytes(600))
    parent = await take_one(store)
    children = await submit(store, 4, body=bytes(100), parent=parent.message.id)
    batch = await claim(store, max_bytes=1_500)
    assert ids_of(batch) == children[:2]
    assert ids_of(await claim(store, max_bytes=1)) == children[2:3]


async def test_a_child_whose_parents_body_is_lost_is_unreadable_and_spoils_nothing(
    bench: Bench, store: Store
) -> None:
    parent = await running_parent(store)
    await fan_out(store, parent, 1)
    other = await submit(store)
    await bench.lose_body(parent.message.id)
    orphan, sound = await drain(store)
    assert parent.message.id in str(orphan.unreadable)
    assert (orphan.message.body, orphan.parent_body) == (b"to one", None)
    assert ([sound.message.id], sound.unreadable) == (other, None)


async def test_a_child_may_be_a_parent(store: Store) -> None:
    parent = await running_parent(store)
    await submit(store, body=b"middle", parent=parent.message.id)
    middle = await take_one(store)
    await submit(store, parent=middle.message.id)
    await complete(store, parent, middle)
    assert await body_of(store, parent.message.id) == b""
    youngest = await take_one(store)
    assert youngest.parent_body == b"middle"
    await complete(store, youngest)
    assert await body_of(store, middle.message.id) == b""


async def test_a_childs_failures_and_settings_are_its_own(store: Store) -> None:
    parent = await running_parent(store)
    (child,) = await fan_out(store, parent, 1)
    delivery = await take_one(store)
    await retry(store, delivery)
    assert (await account(store, child)).failures == (failure(delivery),)
    assert (await account(store, parent.message.id)).failures == ()


@pytest.mark.parametrize("parent_last", [True, False])
async def test_a_parent_is_not_counted_as_work(store: Store, parent_last: bool) -> None:
    parent = await running_parent(store)
    await submit(store, 3, parent=parent.message.id)
    children = await drain(store)
    await complete(store, *children if parent_last else [parent])
    await complete(store, *[parent] if parent_last else children)
    found = await lane(store)
    assert (found.done, found.served, found.in_flight) == (3, 3, 0)
    assert (await counts(store)).published == 3


async def test_a_parent_that_is_settled_with_its_children_is_not_counted_as_work(store: Store) -> None:
    parent = await running_parent(store)
    await submit(store, 3, parent=parent.message.id)
    await complete(store, *await drain(store), parent)
    await submit(store, 2)
    await complete(store, *await drain(store))
    found = await lane(store)
    assert (found.done, found.served, found.in_flight) == (5, 5, 0)
