"""Outbox.append: groups, repeats after a lost reply, limits of a call. Dedupe has its own file."""

from __future__ import annotations

from redrive.core.lifecycle import State
from redrive.core.message import Track
from redrive.core.ports import APPEND_BYTES, APPEND_MESSAGES, Status
from redrive.core.store import Store
from tests.conformance.backends import Bench
from tests.conformance.makers import (
    MINUTE_S,
    account,
    append,
    append_group,
    bury,
    complete,
    counts,
    drain,
    entry,
    ids_of,
    new_id,
    submit,
    take_one,
)


async def test_an_accepted_message_waits_as_it_was_sent(store: Store) -> None:
    sent = entry(store, body=b"\x00\xff{}", track=Track.BULK, dedupe="order-7", headers={"Trace": "ä1"})
    (receipt,) = await append(store, sent)
    assert (receipt.id, receipt.state, receipt.status) == (sent.message.id, State.WAITING, Status.ACCEPTED)
    found = await account(store, sent.message.id)
    assert found.message == sent.message
    progress = found.progress
    assert (progress.due_at, progress.expires_at) == (sent.due_at, sent.expires_at)
    assert (progress.attempts, progress.crashes, progress.generation) == (0, 0, 0)


async def test_receipts_come_in_the_order_of_groups_and_entries(store: Store) -> None:
    groups = [[entry(store), entry(store)], [entry(store)], [entry(store), entry(store)]]
    receipts = await store.append(groups)
    assert [[one.id for one in group] for group in receipts] == [
        [one.message.id for one in group] for group in groups
    ]


async def test_an_append_of_nothing_answers_nothing(store: Store) -> None:
    assert await store.append([]) == []
    assert await store.append([[]]) == [[]]
    assert await store.queues() == []


async def test_a_repeated_append_is_accepted_again_and_changes_nothing(store: Store) -> None:
    entries = [entry(store, dedupe="a"), entry(store)]
    first = await append_group(store, *entries)
    assert await append_group(store, *entries) == first
    assert sorted(ids_of(await drain(store))) == sorted(one.message.id for one in entries)


async def test_a_repeated_append_does_not_revive_a_claimed_message(store: Store) -> None:
    sent = entry(store)
    await append(store, sent)
    await take_one(store)
    (receipt,) = await append(store, sent)
    assert (receipt.status, receipt.state) == (Status.ACCEPTED, State.CLAIMED)
    assert await drain(store) == []


async def test_a_repeated_append_does_not_revive_a_finished_message(store: Store) -> None:
    sent = entry(store)
    await append(store, sent)
    await complete(store, await take_one(store))
    (receipt,) = await append(store, sent)
    assert (receipt.status, receipt.state) == (Status.ACCEPTED, State.DONE)
    assert await drain(store) == []
    assert (await counts(store)).published == 1


async def test_a_repeated_append_does_not_revive_a_dead_letter(store: Store) -> None:
    sent = entry(store)
    await append(store, sent)
    await bury(store, await take_one(store))
    (receipt,) = await append(store, sent)
    assert (receipt.status, receipt.state) == (Status.ACCEPTED, State.DEAD)
    assert await drain(store) == []


async def test_a_repeated_append_does_not_revive_a_removed_message(store: Store) -> None:
    sent = entry(store)
    await append(store, sent)
    await store.cancel("orders", [sent.message.id], actor="ann")
    (receipt,) = await append(store, sent)
    assert (receipt.status, receipt.state) == (Status.ACCEPTED, State.REMOVED)
    assert await drain(store) == []


async def test_the_same_id_twice_in_one_call_is_one_message(store: Store) -> None:
    sent = entry(store)
    receipts = await append(store, sent, sent)
    assert [one.status for one in receipts] == [Status.ACCEPTED, Status.ACCEPTED]
    assert ids_of(await drain(store)) == [sent.message.id]


async def test_a_repeated_group_with_new_entries_writes_only_the_new(store: Store) -> None:
    old, new = entry(store), entry(store)
    await append(store, old)
    await complete(store, await take_one(store))
    receipts = await append_group(store, old, new)
    assert [(one.status, one.state) for one in receipts] == [
        (Status.ACCEPTED, State.DONE),
        (Status.ACCEPTED, State.WAITING),
    ]
    assert ids_of(await drain(store)) == [new.message.id]


async def test_a_call_takes_as_many_messages_as_the_limit_says(store: Store) -> None:
    entries = [entry(store, tenant=f"t{number % 7}") for number in range(APPEND_MESSAGES)]
    (receipts,) = await store.append([entries])
    assert {one.status for one in receipts} == {Status.ACCEPTED}
    assert (await counts(store)).pending == APPEND_MESSAGES


async def test_a_single_message_may_be_larger_than_a_call(store: Store) -> None:
    body = bytes(APPEND_BYTES + 1)
    (message_id,) = await submit(store, body=body)
    delivery = await take_one(store)
    assert (delivery.message.id, delivery.message.body) == (message_id, body)


async def test_queues_do_not_mix(store: Store) -> None:
    (mail,) = await submit(store, queue="mail:send")
    (order,) = await submit(store, queue="orders")
    assert ids_of(await drain(store, queue="orders")) == [order]
    assert ids_of(await drain(store, queue="mail:send")) == [mail]


async def test_a_delayed_message_waits_with_its_own_instants(store: Store) -> None:
    sent = entry(store, delay_s=10 * MINUTE_S, ttl_s=MINUTE_S)
    await append(store, sent)
    found = (await account(store, sent.message.id)).progress
    assert found.due_at == sent.due_at
    assert found.expires_at == sent.due_at + 60_000


async def test_another_store_on_the_same_data_sees_what_was_accepted(bench: Bench) -> None:
    writer, reader = await bench.open_store(), await bench.open_store()
    (message_id,) = await submit(writer)
    assert (await account(reader, message_id)).state is State.WAITING
    assert (await take_one(reader)).message.id == message_id


async def test_what_was_accepted_is_there_after_closing_and_opening(bench: Bench) -> None:
    (message_id,) = await submit(await bench.open_store(), body=b"kept")
    await bench.close()
    delivery = await take_one(await bench.open_store())
    assert (delivery.message.id, delivery.message.body) == (message_id, b"kept")


async def test_an_unknown_id_is_unknown(store: Store) -> None:
    assert await store.get(new_id()) is None
