"""Outbox.append: the dedupe key of (queue, tenant), conflicts, all-or-nothing groups, the key's life."""

from __future__ import annotations

from collections.abc import Sequence

from redrive.core.lifecycle import Move, State
from redrive.core.ports import Cleanup, Receipt, Status
from redrive.core.settings import FinishedSettings
from redrive.core.store import Store
from tests.conformance.backends import Bench
from tests.conformance.makers import (
    DAY_S,
    MINUTE_S,
    append,
    append_group,
    bury,
    complete,
    dead,
    drain,
    entry,
    ids_of,
    keys,
    retry,
    submit,
    take_one,
)

ACCEPTED, DUPLICATE = Status.ACCEPTED, Status.DUPLICATE
CONFLICT, WITHHELD = Status.CONFLICT, Status.WITHHELD


def statuses(receipts: Sequence[Receipt]) -> list[Status]:
    return [one.status for one in receipts]


async def test_a_key_in_use_answers_with_the_first_id_and_state(store: Store) -> None:
    (first,) = await submit(store, dedupe="k")
    (receipt,) = await append(store, entry(store, dedupe="k"))
    assert receipt == Receipt(first, State.WAITING, DUPLICATE)
    assert ids_of(await drain(store)) == [first]


async def test_a_duplicate_tells_each_state_of_the_first(store: Store) -> None:
    (first,) = await submit(store, dedupe="k")

    async def state() -> State:
        (receipt,) = await append(store, entry(store, dedupe="k"))
        assert (receipt.id, receipt.status) == (first, DUPLICATE)
        return receipt.state

    delivery = await take_one(store)
    assert await state() is State.CLAIMED
    await retry(store, delivery)
    assert await state() is State.WAITING
    await bury(store, await take_one(store))
    assert await state() is State.DEAD
    await store.redrive("orders", keys([first]), actor="ann")
    assert await state() is State.WAITING
    await complete(store, await take_one(store))
    assert await state() is State.DONE


async def test_a_key_in_use_with_another_body_is_a_conflict_with_the_first_id(store: Store) -> None:
    (first,) = await submit(store, dedupe="k", body=b"1")
    (receipt,) = await append(store, entry(store, dedupe="k", body=b"2"))
    assert (receipt.id, receipt.status) == (first, CONFLICT)
    assert ids_of(await drain(store)) == [first]


async def test_a_digest_stands_for_the_body_where_it_is_given(store: Store) -> None:
    (first,) = await submit(store, dedupe="k", body=b"rendered at 9:00", digest=b"mail 7")
    (same,) = await append(store, entry(store, dedupe="k", body=b"rendered at 9:01", digest=b"mail 7"))
    assert same == Receipt(first, State.WAITING, DUPLICATE)
    (other,) = await append(store, entry(store, dedupe="k", body=b"rendered at 9:00", digest=b"mail 8"))
    assert (other.id, other.status) == (first, CONFLICT)
    (without,) = await append(store, entry(store, dedupe="k", body=b"rendered at 9:00"))
    assert without.status is CONFLICT


async def test_digests_are_compared_within_one_call(store: Store) -> None:
    receipts = await append(
        store,
        entry(store, dedupe="k", body=b"1", digest=b"same"),
        entry(store, dedupe="k", body=b"2", digest=b"same"),
        entry(store, dedupe="k", body=b"1", digest=b""),
    )
    assert statuses(receipts) == [ACCEPTED, DUPLICATE, CONFLICT]


async def test_a_digest_without_a_key_deduplicates_nothing(store: Store) -> None:
    receipts = await append(store, entry(store, digest=b"same"), entry(store, digest=b"same"))
    assert statuses(receipts) == [ACCEPTED, ACCEPTED]


async def test_a_key_belongs_to_its_tenant(store: Store) -> None:
    receipts = await append(
        store,
        entry(store, tenant="a", dedupe="k", body=b"1"),
        entry(store, tenant="b", dedupe="k", body=b"2"),
    )
    assert statuses(receipts) == [ACCEPTED, ACCEPTED]


async def test_a_key_belongs_to_its_queue(store: Store) -> None:
    await submit(store, queue="orders", dedupe="k", body=b"1")
    (receipt,) = await append(store, entry(store, queue="mail", dedupe="k", body=b"2"))
    assert receipt.status is ACCEPTED


async def test_tenants_and_keys_that_read_alike_together_stay_apart(store: Store) -> None:
    receipts = await append(
        store,
        entry(store, tenant="a", dedupe="b:c", body=b"1"),
        entry(store, tenant="a.b", dedupe="c", body=b"2"),
        entry(store, tenant="a", dedupe="b:c:", body=b"3"),
    )
    assert statuses(receipts) == [ACCEPTED, ACCEPTED, ACCEPTED]


async def test_a_key_twice_in_one_group_is_a_duplicate_of_the_first(store: Store) -> None:
    first, second = entry(store, dedupe="k"), entry(store, dedupe="k")
    receipts = await append_group(store, first, second)
    assert statuses(receipts) == [ACCEPTED, DUPLICATE]
    assert receipts[1].id == first.message.id
    assert ids_of(await drain(store)) == [first.message.id]


async def test_a_conflict_within_one_group_withholds_the_whole_group(store: Store) -> None:
    receipts = await append_group(
        store,
        entry(store, dedupe="k", body=b"1"),
        entry(store),
        entry(store, dedupe="k", body=b"2"),
    )
    assert statuses(receipts) == [WITHHELD, WITHHELD, CONFLICT]
    assert await drain(store) == []


async def test_a_conflict_between_groups_of_one_call_hits_the_later_group(store: Store) -> None:
    first = entry(store, dedupe="k", body=b"1")
    receipts = await store.append([[first], [entry(store, dedupe="k", body=b"2"), entry(store)]])
    assert [statuses(group) for group in receipts] == [[ACCEPTED], [CONFLICT, WITHHELD]]
    assert receipts[1][0].id == first.message.id
    assert ids_of(await drain(store)) == [first.message.id]


async def test_a_conflict_withholds_everything_else_of_its_group_and_nothing_of_others(store: Store) -> None:
    await submit(store, dedupe="taken", body=b"1")
    held = await drain(store)
    before, after = entry(store), entry(store)
    spoiled = [entry(store), entry(store, dedupe="taken", body=b"2"), entry(store, dedupe="free")]
    receipts = await store.append([[before], spoiled, [after]])
    assert [statuses(group) for group in receipts] == [[ACCEPTED], [WITHHELD, CONFLICT, WITHHELD], [ACCEPTED]]
    assert [one.id for one in receipts[1]][::2] == [spoiled[0].message.id, spoiled[2].message.id]
    assert ids_of(await drain(store)) == [before.message.id, after.message.id]
    assert await store.get(spoiled[0].message.id) is None
    await complete(store, *held)


async def test_a_withheld_group_leaves_its_keys_free(store: Store) -> None:
    await submit(store, dedupe="taken", body=b"1")
    spoiled = [entry(store, dedupe="free", body=b"1"), entry(store, dedupe="taken", body=b"2")]
    later = [entry(store, dedupe="free", body=b"2")]
    receipts = await store.append([spoiled, later])
    assert [statuses(group) for group in receipts] == [[WITHHELD, CONFLICT], [ACCEPTED]]
    (again,) = await append(store, entry(store, dedupe="free", body=b"2"))
    assert (again.id, again.status) == (later[0].message.id, DUPLICATE)


async def test_a_withheld_group_can_be_sent_again_without_its_conflict(store: Store) -> None:
    await submit(store, dedupe="taken", body=b"1")
    good = entry(store, dedupe="good")
    await append_group(store, good, entry(store, dedupe="taken", body=b"2"))
    (receipt,) = await append_group(store, good)
    assert (receipt.id, receipt.status) == (good.message.id, ACCEPTED)


async def test_a_key_outlives_its_finished_message_by_the_setting(bench: Bench) -> None:
    store = await bench.open_store(FinishedSettings(dedupe_s=600))
    (first,) = await submit(store, dedupe="k")
    await complete(store, await take_one(store))
    bench.advance(9 * MINUTE_S)
    (early,) = await append(store, entry(store, dedupe="k"))
    assert early == Receipt(first, State.DONE, DUPLICATE)
    bench.advance(3 * MINUTE_S)
    (late,) = await append(store, entry(store, dedupe="k", body=b"another"))
    assert late.status is ACCEPTED
    assert ids_of(await drain(store)) == [late.id]


async def test_a_key_lives_as_long_as_its_message_does(bench: Bench) -> None:
    store = await bench.open_store(FinishedSettings(dedupe_s=1))
    (waiting,) = await submit(store, dedupe="k", delay_s=2 * DAY_S)
    (letter,) = await dead(store, tenant="other", dedupe="k")
    bench.advance(DAY_S)
    receipts = await append(store, entry(store, dedupe="k"), entry(store, tenant="other", dedupe="k"))
    assert receipts == [
        Receipt(waiting, State.WAITING, DUPLICATE),
        Receipt(letter, State.DEAD, DUPLICATE),
    ]


async def test_a_key_is_known_as_done_where_no_finished_record_is_kept(bench: Bench) -> None:
    store = await bench.open_store(FinishedSettings(keep=0, dedupe_s=600))
    (first,) = await submit(store, dedupe="k")
    await complete(store, await take_one(store))
    (receipt,) = await append(store, entry(store, dedupe="k"))
    assert receipt == Receipt(first, State.DONE, DUPLICATE)


async def test_a_key_is_known_after_the_finished_record_was_cleaned_up(bench: Bench) -> None:
    store = await bench.open_store(FinishedSettings(dedupe_s=DAY_S))
    (first,) = await submit(store, dedupe="k")
    await complete(store, await take_one(store))
    bench.advance(3 * MINUTE_S)
    await store.cleanup(Cleanup(finished_before_at=store.now()))
    assert await store.get(first) is None
    (receipt,) = await append(store, entry(store, dedupe="k"))
    assert receipt == Receipt(first, State.DONE, DUPLICATE)


async def test_discard_frees_the_key(store: Store) -> None:
    ids = await dead(store, dedupe="k")
    await store.remove("orders", keys(ids), Move.DISCARD, actor="ann")
    (receipt,) = await append(store, entry(store, dedupe="k", body=b"another"))
    assert receipt.status is ACCEPTED


async def test_cancel_frees_the_key(store: Store) -> None:
    ids = await submit(store, dedupe="k")
    await store.cancel("orders", ids, actor="ann")
    (receipt,) = await append(store, entry(store, dedupe="k", body=b"another"))
    assert receipt.status is ACCEPTED


async def test_purge_frees_the_keys(store: Store) -> None:
    await submit(store, dedupe="k")
    await store.purge("orders", actor="ann")
    (receipt,) = await append(store, entry(store, dedupe="k", body=b"another"))
    assert receipt.status is ACCEPTED


async def test_finishing_an_old_message_leaves_the_key_of_its_successor(bench: Bench) -> None:
    store = await bench.open_store(FinishedSettings(dedupe_s=600))
    await submit(store, dedupe="k")
    await complete(store, await take_one(store))
    bench.advance(11 * MINUTE_S)
    (second,) = await submit(store, dedupe="k")
    await store.cleanup(Cleanup(finished_before_at=store.now()))
    (receipt,) = await append(store, entry(store, dedupe="k"))
    assert receipt == Receipt(second, State.WAITING, DUPLICATE)
