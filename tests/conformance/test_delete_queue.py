"""Lanes.delete_queue: a queue that has nothing open goes whole, and no other does."""

from __future__ import annotations

import asyncio

import pytest

from redrive.core.lanes import LaneChange, LaneState
from redrive.core.letters import MessagePhase
from redrive.core.lifecycle import Move
from redrive.core.ports import Status
from redrive.core.settings import FinishedSettings
from redrive.core.store import Deletion, Store
from tests.conformance.backends import Bench
from tests.conformance.families import fan_out, running_parent
from tests.conformance.makers import (
    DAY_S,
    MINUTE_S,
    append,
    bury,
    complete,
    counts,
    crash,
    dead,
    drain,
    entry,
    keys,
    listed,
    submit,
    take,
    take_one,
)

QUEUE = "orders"


async def delete(store: Store, queue: str = QUEUE) -> Deletion:
    """Delete a queue page by page; the last answer, with all that went."""
    removed = 0
    while True:
        page = await store.delete_queue(queue, limit=3)
        removed += page.removed
        if page.gone or page.refused:
            return Deletion(
                page.gone, removed, page.waiting, page.running, page.dead, page.remembered_until_at
            )


async def test_a_queue_goes_with_its_lanes_switches_finished_records_and_keys(
    bench: Bench, store: Store
) -> None:
    await append(store, *(entry(store, dedupe=f"k{number}") for number in range(4)))
    await submit(store, 3, tenant="bob")
    await complete(store, *await drain(store))
    await store.set_lane(QUEUE, "bob", LaneChange(state=LaneState.PAUSED, weight=7, cap=2))
    await store.set_queue(QUEUE, LaneState.PAUSED)
    other = await submit(store, queue="mail")
    bench.advance(DAY_S / 2)
    assert await delete(store) == Deletion(gone=True, removed=7)
    assert await store.queue_names() == ["mail"]
    assert [one.queue for one in await store.queues()] == ["mail"]
    assert await store.lanes(QUEUE) == []
    assert [one.message.id for one in await take(store, queue="mail")] == other


async def test_a_submit_afterwards_makes_the_queue_anew(bench: Bench, store: Store) -> None:
    sent = entry(store, dedupe="k")
    await append(store, sent)
    await complete(store, await take_one(store))
    await store.set_lane(QUEUE, "acme", LaneChange(weight=7))
    bench.advance(DAY_S / 2)
    await delete(store)
    (receipt,) = await append(store, entry(store, dedupe="k"))
    assert receipt.status is Status.ACCEPTED
    found = await counts(store)
    assert (found.state, found.pending, found.published) == (LaneState.RUNNING, 1, 0)
    (lane,) = await store.lanes(QUEUE)
    assert (lane.weight, lane.done, lane.served) == (1, 0, 0)
    await bury(store, await take_one(store))
    assert (await counts(store)).dlq == 1


async def test_a_queue_that_was_never_there_is_gone(store: Store) -> None:
    assert await store.delete_queue(QUEUE) == Deletion(gone=True)
    assert await store.queue_names() == []


async def test_what_is_open_stands_in_the_way_and_nothing_changes(bench: Bench, store: Store) -> None:
    await dead(store, 2)
    await submit(store, 3)
    await complete(store, await take_one(store))
    await submit(store, 1, delay_s=DAY_S)
    running = await take_one(store)
    bench.advance(MINUTE_S * 10)
    assert await store.delete_queue(QUEUE) == Deletion(gone=False, waiting=2, running=1, dead=2)
    assert len(await listed(store, MessagePhase.DONE)) == 1
    assert await complete(store, running) == set()


async def test_a_suspect_stands_in_the_way(store: Store) -> None:
    await submit(store)
    await crash(store, await take_one(store))
    assert (await store.delete_queue(QUEUE)).waiting == 1


@pytest.mark.parametrize("removed", [False, True])
async def test_what_has_just_finished_has_to_be_remembered(bench: Bench, removed: bool) -> None:
    store = await bench.open_store(FinishedSettings(remember_s=600))
    sent = entry(store)
    await append(store, sent)
    if removed:
        await bury(store, await take_one(store))
        await store.remove(QUEUE, keys([sent.message.id]), Move.DISCARD, actor="ann")
    else:
        await complete(store, await take_one(store))
    ends_at = store.now() + 600_000
    bench.advance(9 * MINUTE_S)
    page = await store.delete_queue(QUEUE)
    assert not page.gone
    assert page.remembered_until_at is not None
    assert abs(page.remembered_until_at - ends_at) < 5_000
    (receipt,) = await append(store, sent)
    assert receipt.status is Status.ACCEPTED
    assert await drain(store) == []
    bench.advance(2 * MINUTE_S)
    assert await delete(store) == Deletion(gone=True, removed=1)


async def test_letters_that_were_removed_and_families_go_too(bench: Bench, store: Store) -> None:
    parent = await running_parent(store)
    await fan_out(store, parent, 2)
    first, second = await take(store)
    await bury(store, first)
    await store.remove(QUEUE, keys([first.message.id]), Move.DISCARD, actor="ann", operation="op-1")
    await complete(store, second)
    await dead(store, 2)
    for letter, move in zip((await store.letters(QUEUE)).letters, (Move.ARCHIVE, Move.REPLACE), strict=True):
        await store.remove(QUEUE, keys([letter.message.id]), move, actor="ann", operation="op-1")
    bench.advance(DAY_S)
    assert await delete(store) == Deletion(gone=True, removed=5)
    assert await store.get(parent.message.id) is None
    assert await store.family(parent.message.id) == []


async def test_an_append_comes_before_a_deletion_and_it_is_refused_or_after_it_and_the_queue_is_new(
    bench: Bench, store: Store
) -> None:
    other = await bench.open_store()
    for _ in range(20):
        await submit(store, 2)
        await complete(store, *await drain(store))
        bench.advance(DAY_S)
        page, (message_id,) = await asyncio.gather(delete(store), submit(other))
        assert page.gone or page.waiting == 1
        assert await store.queue_names() == await other.queue_names() == [QUEUE]
        assert (await counts(store)).pending == 1
        taken = await drain(other)
        assert [one.message.id for one in taken] == [message_id]
        await complete(other, *taken)
