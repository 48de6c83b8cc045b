"""Outbox.append and Ledger of children: how they are counted, refused without a parent, and told."""

from __future__ import annotations

import pytest

from redrive.core.errors import InvalidMessage
from redrive.core.letters import DeadLetter
from redrive.core.lifecycle import State
from redrive.core.ports import Status
from redrive.core.store import Store
from tests.conformance.backends import Bench
from tests.conformance.families import CONTENT, body_of, fan_out, running_parent
from tests.conformance.makers import (
    DAY_S,
    account,
    append,
    append_group,
    bury,
    complete,
    drain,
    entry,
    keys,
    letters,
    new_id,
    submit,
    take_one,
)


async def test_a_repeated_append_counts_a_child_once(store: Store) -> None:
    parent = await running_parent(store)
    child = entry(store, parent=parent.message.id)
    await append(store, child)
    await append(store, child, child)
    await complete(store, parent)
    await complete(store, *await drain(store))
    assert await body_of(store, parent.message.id) == b""


async def test_a_duplicate_or_withheld_child_is_not_counted(store: Store) -> None:
    parent = await running_parent(store)
    await append(store, entry(store, parent=parent.message.id, dedupe="k", body=b"1"))
    (again,) = await append(store, entry(store, parent=parent.message.id, dedupe="k", body=b"1"))
    assert again.status is Status.DUPLICATE
    await append_group(
        store,
        entry(store, parent=parent.message.id),
        entry(store, parent=parent.message.id, dedupe="k", body=b"2"),
    )
    await complete(store, parent)
    await complete(store, *await drain(store))
    assert await body_of(store, parent.message.id) == b""


async def test_a_parent_may_come_in_the_same_call_before_its_children(store: Store) -> None:
    parent = entry(store, body=CONTENT)
    children = [entry(store, parent=parent.message.id) for _ in range(2)]
    receipts = await store.append([[parent, children[0]], [children[1]]])
    assert {one.status for group in receipts for one in group} == {Status.ACCEPTED}
    first, *rest = await drain(store)
    assert [one.parent_body for one in rest] == [CONTENT, CONTENT]
    await complete(store, first)
    assert await body_of(store, parent.message.id) == CONTENT
    await complete(store, *rest)
    assert await body_of(store, parent.message.id) == b""


async def test_a_child_of_an_unknown_parent_is_refused_and_nothing_is_written(store: Store) -> None:
    stranger, good = new_id(), entry(store)
    bad = entry(store, parent=stranger)
    with pytest.raises(InvalidMessage, match=stranger) as caught:
        await store.append([[entry(store)], [good, bad]])
    assert caught.value.index == 1
    with pytest.raises(InvalidMessage, match=stranger) as caught:
        await append(store, good, bad)
    assert caught.value.index is None
    assert await drain(store) == []
    assert await store.get(good.message.id) is None
    assert await store.family(stranger) == []


async def test_a_parent_of_another_queue_is_unknown(store: Store) -> None:
    (elsewhere,) = await submit(store, queue="mail")
    with pytest.raises(InvalidMessage, match=elsewhere):
        await submit(store, parent=elsewhere)


async def test_a_message_is_not_its_own_parent(store: Store) -> None:
    own = new_id()
    with pytest.raises(InvalidMessage, match=own):
        await submit(store, id=own, parent=own)


async def test_a_withheld_parent_is_unknown_to_the_groups_after_it(store: Store) -> None:
    await submit(store, dedupe="k", body=b"1")
    parent = entry(store)
    withheld = [parent, entry(store, parent=parent.message.id), entry(store, dedupe="k", body=b"2")]
    with pytest.raises(InvalidMessage, match=parent.message.id):
        await store.append([withheld, [entry(store, parent=parent.message.id)]])
    assert await store.get(parent.message.id) is None


async def test_a_finished_parent_that_lost_its_body_has_no_more_children(store: Store) -> None:
    parent = await running_parent(store)
    (child,) = await fan_out(store, parent, 1)
    known = await account(store, child)
    await complete(store, await take_one(store))
    with pytest.raises(InvalidMessage, match=parent.message.id):
        await submit(store, parent=parent.message.id)
    late = entry(store, id=child, parent=parent.message.id, body=known.message.body)
    (receipt,) = await append(store, late)
    assert (receipt.status, receipt.state) == (Status.ACCEPTED, State.DONE)


async def test_the_family_is_told_in_the_order_of_appending(bench: Bench, store: Store) -> None:
    parent = await running_parent(store)
    sent = [entry(store, parent=parent.message.id, delay_s=DAY_S / (one + 1)) for one in range(5)]
    await append(store, *sent[:2])
    await append(store, *sent[2:])
    await submit(store, 2)
    await store.cancel("orders", [sent[1].message.id], actor="ann")
    bench.advance(DAY_S / 4)
    (last,) = [one for one in await drain(store) if one.message.id == sent[4].message.id]
    await bury(store, last)
    found = await store.family(parent.message.id)
    assert [one.message.id for one in found] == [one.message.id for one in sent]
    states = [State.WAITING, State.REMOVED, State.WAITING, State.CLAIMED, State.DEAD]
    assert [one.state for one in found] == states
    assert found == [await account(store, one.message.id) for one in sent]
    assert {one.message.parent for one in found} == {parent.message.id}


async def test_who_has_no_children_has_no_family(store: Store) -> None:
    (message_id,) = await submit(store)
    assert await store.family(message_id) == []
    assert await store.family(new_id()) == []


async def letter_of_child(store: Store, parent: str) -> DeadLetter:
    """A letter as another store would hand it over."""
    sent = entry(store, parent=parent)
    elsewhere = await running_parent(store)
    await bury(store, elsewhere)
    (letter,) = [one for one in await letters(store) if one.message.id == elsewhere.message.id]
    died = (letter.died_at, letter.first_died_at)
    return DeadLetter(sent.message, letter.progress, letter.reason, *died, letter.fingerprint)


async def test_a_letter_taken_in_is_counted_with_its_parent(store: Store) -> None:
    parent = await running_parent(store)
    letter = await letter_of_child(store, parent.message.id)
    assert await store.bury([letter]) == {letter.message.id}
    assert await store.bury([letter]) == set()
    await complete(store, parent)
    assert [one.message.id for one in await store.family(parent.message.id)] == [letter.message.id]
    await store.redrive("orders", keys([letter.message.id]), actor="ann")
    child = await take_one(store)
    assert child.parent_body == CONTENT
    await complete(store, child)
    assert await body_of(store, parent.message.id) == b""


async def test_a_letter_whose_parent_is_unknown_is_refused(store: Store) -> None:
    stranger = new_id()
    letter = await letter_of_child(store, stranger)
    with pytest.raises(InvalidMessage, match=stranger):
        await store.bury([letter])
    assert await store.get(letter.message.id) is None
