"""A finished record outlives every repeat of its own message, whatever number or age of records is kept."""

from __future__ import annotations

import pytest

from redrive.core.lifecycle import Move, State
from redrive.core.ports import Cleanup, Receipt, Status
from redrive.core.settings import FinishedSettings
from redrive.core.store import Store
from tests.conformance.backends import Bench
from tests.conformance.families import running_parent
from tests.conformance.makers import (
    DAY_S,
    MINUTE_S,
    account,
    append,
    bury,
    complete,
    dead,
    drain,
    entry,
    keys,
    submit,
    take_one,
)

NOTHING = FinishedSettings(keep=0, keep_s=0, dedupe_s=0, remember_s=600)


async def clean_up(store: Store) -> int:
    """Remove whatever may go; how many went."""
    total = 0
    while went := await store.cleanup(Cleanup(store.now(), keep=0, discarded_before_at=store.now())):
        total += went
    return total


async def test_a_repeat_is_known_where_nothing_is_kept(bench: Bench) -> None:
    store = await bench.open_store(NOTHING)
    sent = entry(store)
    await append(store, sent)
    await complete(store, await take_one(store))
    bench.advance(9 * MINUTE_S)
    assert await clean_up(store) == 0
    assert await append(store, sent) == [Receipt(sent.message.id, State.DONE, Status.ACCEPTED)]
    assert await drain(store) == []


async def test_a_record_goes_when_it_has_been_remembered_long_enough(bench: Bench) -> None:
    store = await bench.open_store(NOTHING)
    (message_id,) = await submit(store)
    await complete(store, await take_one(store))
    bench.advance(11 * MINUTE_S)
    assert await clean_up(store) == 1
    assert await store.get(message_id) is None


async def test_settling_removes_no_record_that_must_be_remembered(bench: Bench) -> None:
    store = await bench.open_store(FinishedSettings(keep=1, remember_s=600))
    old = await submit(store, 3)
    await complete(store, *await drain(store))
    bench.advance(11 * MINUTE_S)
    young = await submit(store, 4)
    await complete(store, *await drain(store))
    await store.cleanup(Cleanup(0, keep=1))
    assert [await store.get(one) for one in old] == [None] * 3
    assert [(await account(store, one)).state for one in young] == [State.DONE] * 4


@pytest.mark.parametrize("move", [Move.DISCARD, Move.REPLACE, Move.ARCHIVE])
async def test_a_removed_letter_is_remembered_too(bench: Bench, move: Move) -> None:
    store = await bench.open_store(NOTHING)
    (message_id,) = await dead(store)
    await store.remove("orders", keys([message_id]), move, actor="ann")
    assert await clean_up(store) == 0
    bench.advance(11 * MINUTE_S)
    assert await clean_up(store) == 1
    assert await store.get(message_id) is None


@pytest.mark.parametrize("unsettled", [State.CLAIMED, State.WAITING, State.DEAD])
async def test_children_stay_while_their_parent_is_not_settled(bench: Bench, unsettled: State) -> None:
    store = await bench.open_store(NOTHING)
    parent = await running_parent(store)
    children = [entry(store, parent=parent.message.id) for _ in range(3)]
    await append(store, *children)
    await complete(store, *await drain(store))
    if unsettled is not State.CLAIMED:
        await bury(store, parent)
    if unsettled is State.WAITING:
        await store.redrive("orders", keys([parent.message.id]), actor="ann")
    for _ in range(3):
        bench.advance(DAY_S)
        await clean_up(store)
    again = await append(store, *children)
    assert [(one.state, one.status) for one in again] == [(State.DONE, Status.ACCEPTED)] * 3
    assert len(await store.family(parent.message.id)) == 3


@pytest.mark.parametrize("move", [Move.DISCARD, Move.ARCHIVE])
async def test_removed_children_stay_while_their_parent_is_not_settled(bench: Bench, move: Move) -> None:
    store = await bench.open_store(NOTHING)
    parent = await running_parent(store)
    child = entry(store, parent=parent.message.id)
    await append(store, child)
    await bury(store, await take_one(store))
    await store.remove("orders", keys([child.message.id]), move, actor="ann")
    bench.advance(DAY_S)
    assert await clean_up(store) == 0
    (receipt,) = await append(store, child)
    assert (receipt.state, receipt.status) == (State.REMOVED, Status.ACCEPTED)


async def test_a_settled_family_is_forgotten(bench: Bench) -> None:
    store = await bench.open_store(NOTHING)
    parent = await running_parent(store)
    children = [entry(store, parent=parent.message.id) for _ in range(3)]
    await append(store, *children)
    await complete(store, *await drain(store))
    bench.advance(DAY_S)
    await clean_up(store)
    await complete(store, parent)
    bench.advance(DAY_S)
    await clean_up(store)
    assert await store.get(parent.message.id) is None
    assert await store.family(parent.message.id) == []


async def test_children_that_stay_do_not_stand_in_the_way_of_others(bench: Bench) -> None:
    store = await bench.open_store(NOTHING)
    parent = await running_parent(store)
    await append(store, *[entry(store, parent=parent.message.id) for _ in range(3)])
    await complete(store, *await drain(store))
    bench.advance(1)
    (other,) = await submit(store)
    await complete(store, await take_one(store))
    bench.advance(DAY_S)
    for _ in range(5):
        await store.cleanup(Cleanup(store.now(), keep=0, limit=1))
    assert await store.get(other) is None
