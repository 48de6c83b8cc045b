"""Outbox.append: an id stands for one message. A repeat changes nothing; another message is a conflict."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from msgspec.structs import replace

from redrive.core.lifecycle import Move, State
from redrive.core.message import Entry, Track
from redrive.core.ports import Receipt, Status
from redrive.core.store import Store
from tests.conformance.backends import Bench
from tests.conformance.makers import (
    MINUTE_S,
    account,
    append,
    append_group,
    bury,
    complete,
    drain,
    entry,
    ids_of,
    keys,
    new_id,
    submit,
    take_one,
)

CHANGES: dict[str, tuple[dict[str, Any], str]] = {
    "tenant": ({"tenant": "other"}, "tenant"),
    "track": ({"track": Track.BULK}, "track"),
    "key": ({"dedupe": "another"}, "dedupe key"),
    "no key": ({"dedupe": None}, "dedupe key"),
    "body": ({"body": b'{"x": 2}'}, "content"),
    "headers": ({"headers": {"to": "bob"}}, "content"),
    "no headers": ({"headers": {}}, "content"),
}


def make(store: Store) -> Entry:
    return entry(store, body=b'{"x": 1}', dedupe="k", headers={"to": "ann", "via": "web"})


def changed(first: Entry, **fields: Any) -> Entry:
    return replace(first, message=replace(first.message, **fields))


async def leave_waiting(store: Store, message_id: str) -> State:
    return State.WAITING


async def leave_claimed(store: Store, message_id: str) -> State:
    await take_one(store)
    return State.CLAIMED


async def leave_done(store: Store, message_id: str) -> State:
    await complete(store, await take_one(store))
    return State.DONE


async def leave_dead(store: Store, message_id: str) -> State:
    await bury(store, await take_one(store))
    return State.DEAD


async def leave_cancelled(store: Store, message_id: str) -> State:
    await store.cancel("orders", [message_id], actor="ann")
    return State.REMOVED


async def leave_discarded(store: Store, message_id: str) -> State:
    await leave_dead(store, message_id)
    await store.remove("orders", keys([message_id]), Move.DISCARD, actor="ann")
    return State.REMOVED


async def leave_archived(store: Store, message_id: str) -> State:
    await leave_dead(store, message_id)
    await store.remove("orders", keys([message_id]), Move.ARCHIVE, actor="ann")
    return State.REMOVED


LEAVE: list[Callable[[Store, str], Awaitable[State]]] = [
    leave_waiting,
    leave_claimed,
    leave_done,
    leave_dead,
    leave_cancelled,
    leave_discarded,
    leave_archived,
]


@pytest.mark.parametrize("leave", LEAVE, ids=lambda leave: leave.__name__)
async def test_another_message_of_a_known_id_is_a_conflict_that_names_what_differs(
    store: Store, leave: Callable[[Store, str], Awaitable[State]]
) -> None:
    first = make(store)
    await append(store, first)
    message_id = first.message.id
    state = await leave(store, message_id)
    before = await account(store, message_id)
    for change, differs in CHANGES.values():
        (receipt,) = await append(store, changed(first, **change))
        assert receipt == Receipt(message_id, state, Status.CONFLICT, differs)
    assert await account(store, message_id) == before


@pytest.mark.parametrize("leave", LEAVE, ids=lambda leave: leave.__name__)
async def test_a_repeat_made_later_is_accepted_whatever_became_of_the_first(
    bench: Bench, store: Store, leave: Callable[[Store, str], Awaitable[State]]
) -> None:
    first = make(store)
    await append(store, first)
    message_id = first.message.id
    state = await leave(store, message_id)
    bench.advance(MINUTE_S)
    headers = {"via": "web", "to": "ann"}
    again = entry(
        store, id=message_id, body=first.message.body, dedupe="k", headers=headers, delay_s=5, ttl_s=60
    )
    (receipt,) = await append(store, again)
    assert receipt == Receipt(message_id, state, Status.ACCEPTED)


async def test_two_messages_of_one_id_in_one_batch_are_a_conflict(store: Store) -> None:
    first = make(store)
    other = changed(first, body=b"another", dedupe=None)
    receipts = await append_group(store, first, entry(store), other)
    assert [one.status for one in receipts] == [Status.WITHHELD, Status.WITHHELD, Status.CONFLICT]
    assert receipts[2].differs == "dedupe key"
    assert await drain(store) == []


async def test_the_same_message_twice_in_one_batch_is_there_once(store: Store) -> None:
    first = make(store)
    receipts = await append_group(store, first, first)
    assert [one.status for one in receipts] == [Status.ACCEPTED, Status.ACCEPTED]
    assert ids_of(await drain(store)) == [first.message.id]


async def test_of_two_callers_with_one_id_only_the_first_is_accepted(store: Store) -> None:
    first = make(store)
    receipts = await append(store, first, changed(first, body=b"another"), first)
    assert [one.status for one in receipts] == [Status.ACCEPTED, Status.CONFLICT, Status.ACCEPTED]
    (delivery,) = await drain(store)
    assert delivery.message == first.message


async def test_an_id_withheld_with_its_group_is_free(store: Store) -> None:
    await submit(store, dedupe="taken", body=b"first")
    held_back = entry(store)
    await append_group(store, held_back, entry(store, dedupe="taken", body=b"other"))
    (receipt,) = await append(store, changed(held_back, body=b"another"))
    assert receipt.status is Status.ACCEPTED


async def test_a_child_of_another_parent_or_of_none_is_a_conflict(store: Store) -> None:
    parent, other = await submit(store, 2)
    child = entry(store, parent=parent, headers={"to": "ann"})
    await append(store, child)
    for named in (other, None):
        (receipt,) = await append(store, changed(child, parent=named))
        assert (receipt.status, receipt.differs) == (Status.CONFLICT, "parent")
    (receipt,) = await append(store, child)
    assert receipt.status is Status.ACCEPTED
    (receipt,) = await append(store, entry(store, id=parent, parent=other))
    assert (receipt.status, receipt.differs) == (Status.CONFLICT, "parent")


async def test_a_message_that_cannot_be_read_is_repeated_by_its_id(bench: Bench, store: Store) -> None:
    first = entry(store, id=new_id())
    await append(store, first)
    await bench.corrupt(first.message.id)
    (receipt,) = await append(store, first)
    assert receipt.status is Status.ACCEPTED


async def test_a_repeat_in_another_trace_is_the_same_message(store: Store) -> None:
    first = make(store)
    traced = changed(
        first, headers={**first.message.headers, "traceparent": "00-1-1-01", "tracestate": "a=1"}
    )
    again = changed(first, headers={**first.message.headers, "traceparent": "00-2-2-01"})
    for one in (traced, again, first):
        (receipt,) = await append(store, one)
        assert receipt.status is Status.ACCEPTED
        assert receipt.id == first.message.id
    kept = await account(store, first.message.id)
    assert kept.message.headers["traceparent"] == "00-1-1-01"
