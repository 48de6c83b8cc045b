"""Letters that leave for an archive, and come back as they were."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from redrive.core.errors import InvalidMessage
from redrive.core.failure import Failure, Kind, Scope
from redrive.core.letters import DeadLetter, LetterKey, as_letter
from redrive.core.lifecycle import Move, State
from redrive.core.message import Track
from redrive.core.ports import Cleanup, Status
from redrive.core.store import Store
from redrive.core.verdict import Bury, Reason, RetryAt, Settlement
from tests.conformance.backends import Bench
from tests.conformance.families import CONTENT, body_of, fan_out, running_parent
from tests.conformance.makers import (
    DAY_S,
    account,
    append,
    bury,
    complete,
    counts,
    dead,
    drain,
    entry,
    ids_of,
    keys,
    lane,
    letters,
    new_id,
    soon,
    submit,
    take_one,
)


async def rich_letter(store: Store) -> DeadLetter:
    """A letter with everything that a letter can have."""
    made = entry(
        store,
        body=b"\x00\xff",
        track=Track.BULK,
        dedupe="k",
        headers={"Trace": "1"},
        ttl_s=60.5,
    )
    await append(store, made)
    at = store.now()
    tried = await take_one(store)
    failed = Failure(at, 1, Kind.TEMPORARY, "refused", "ECONN", Scope.DESTINATION, "a" * 16, "Trace 1")
    await store.settle([Settlement(tried, RetryAt(soon(store), failed))])
    await bury(store, await take_one(store))
    await store.redrive("orders", keys([made.message.id]), actor="ann", operation="op-1")
    failed = Failure(at + 1, 1, Kind.PERMANENT, "no such user", "550", Scope.RECIPIENT, "b" * 16, "Trace 2")
    await store.settle([Settlement(await take_one(store), Bury(Reason.BOUNCED, failed))])
    (found,) = await letters(store)
    return found


async def archive(store: Store, *found: DeadLetter) -> None:
    named = [LetterKey(one.message.id, one.progress.generation) for one in found]
    moved = await store.remove("orders", named, Move.ARCHIVE, actor="retention")
    assert moved == {one.id for one in named}


async def archived(store: Store, count: int = 1, **fields: object) -> list[DeadLetter]:
    await dead(store, count, **fields)
    found = await letters(store)
    await archive(store, *found)
    return found


async def test_an_archived_letter_leaves_a_bare_record(store: Store) -> None:
    letter = await rich_letter(store)
    await archive(store, letter)
    found = await account(store, letter.message.id)
    assert found.removal is not None
    assert (found.state, found.removal.move, found.removal.actor) == (
        State.REMOVED,
        Move.ARCHIVE,
        "retention",
    )
    assert (found.message.body, found.failures) == (b"", ())
    assert (found.message.queue, found.message.tenant) == ("orders", "acme")
    assert (await lane(store)).dead == 0
    assert (await counts(store)).dlq == 0


async def test_a_restored_letter_equals_the_one_that_left(store: Store) -> None:
    letter = await rich_letter(store)
    await archive(store, letter)
    assert await store.bury([letter]) == {letter.message.id}
    assert await letters(store) == [letter]
    found = await account(store, letter.message.id)
    assert (found.state, found.removal, found.finished_at) == (State.DEAD, None, None)
    assert ((await lane(store)).dead, (await counts(store)).dlq) == (1, 1)


async def test_a_restored_letter_can_be_archived_and_restored_again(store: Store) -> None:
    letter = await rich_letter(store)
    for _ in range(3):
        await archive(store, letter)
        assert await store.bury([letter, letter]) == {letter.message.id}
        assert await store.bury([letter]) == set()
    assert await letters(store) == [letter]


async def test_a_restored_letter_is_redriven_like_any_other(store: Store) -> None:
    letter = await rich_letter(store)
    await archive(store, letter)
    await store.bury([letter])
    named = [LetterKey(letter.message.id, letter.progress.generation)]
    assert await store.redrive("orders", named, actor="bob") == {letter.message.id}
    delivery = await take_one(store)
    assert delivery.message == letter.message
    await complete(store, delivery)
    assert (await account(store, letter.message.id)).state is State.DONE


async def test_a_letter_is_restored_after_its_bare_record_has_aged(bench: Bench, store: Store) -> None:
    letter = await rich_letter(store)
    await archive(store, letter)
    bench.advance(30 * DAY_S)
    await store.cleanup(Cleanup(store.now()))
    assert await store.get(letter.message.id) is None
    assert await store.bury([letter]) == {letter.message.id}
    assert await letters(store) == [letter]


async def test_archived_records_count_among_the_finished_that_are_kept(bench: Bench, store: Store) -> None:
    found = await archived(store, 3)
    bench.advance(1)
    (done,) = await submit(store)
    await complete(store, await take_one(store))
    bench.advance(DAY_S)
    while await store.cleanup(Cleanup(0, keep=1)):
        pass
    assert [await store.get(one.message.id) for one in found] == [None] * 3
    assert (await account(store, done)).state is State.DONE


async def test_a_page_of_known_unknown_and_archived_letters_takes_in_the_last_two(store: Store) -> None:
    gone = await archived(store, 2)
    (still,) = await dead(store)
    (kept,) = await letters(store)
    unknown = replace(gone[0], message=msgspec.structs.replace(gone[0].message, id=new_id()))
    taken = await store.bury([kept, *gone, unknown])
    assert taken == {gone[0].message.id, gone[1].message.id, unknown.message.id}
    assert {one.message.id for one in await letters(store)} == taken | {still}


@pytest.mark.parametrize("move", [Move.DISCARD, Move.REPLACE])
async def test_what_was_discarded_or_replaced_is_not_restored(store: Store, move: Move) -> None:
    (message_id,) = await dead(store)
    found = await letters(store)
    await store.remove("orders", keys([message_id]), move, actor="ann")
    assert await store.bury(found) == set()
    assert (await account(store, message_id)).state is State.REMOVED


async def test_an_archive_of_an_earlier_death_does_not_replace_a_later_one(store: Store) -> None:
    (first,) = await archived(store)
    await store.bury([first])
    await store.redrive("orders", keys([first.message.id]), actor="ann")
    await bury(store, await take_one(store))
    (second,) = await letters(store)
    await archive(store, second)
    assert await store.bury([first]) == set()
    assert await store.bury([second]) == {second.message.id}
    assert await letters(store) == [second]


async def test_a_restored_letter_takes_its_dedupe_key_back_where_it_is_free(store: Store) -> None:
    (letter,) = await archived(store, dedupe="order-7", body=b"one")
    await store.bury([letter])
    (receipt,) = await append(store, entry(store, dedupe="order-7", body=b"one"))
    assert (receipt.id, receipt.status) == (letter.message.id, Status.DUPLICATE)


async def test_a_restored_letter_leaves_a_dedupe_key_to_whoever_took_it(store: Store) -> None:
    (letter,) = await archived(store, dedupe="order-7", body=b"one")
    (holder,) = await submit(store, dedupe="order-7", body=b"two")
    await store.bury([letter])
    assert await letters(store) == [letter]
    (receipt,) = await append(store, entry(store, dedupe="order-7", body=b"two"))
    assert (receipt.id, receipt.status) == (holder, Status.DUPLICATE)


async def test_an_archived_child_lets_go_of_its_parents_body(store: Store) -> None:
    parent = await running_parent(store)
    children = await fan_out(store, parent, 2)
    await bury(store, *await drain(store))
    first, second = await letters(store)
    await archive(store, first)
    assert await body_of(store, parent.message.id) == parent.message.body
    await store.bury([first])
    await archive(store, second)
    assert await body_of(store, parent.message.id) == parent.message.body
    assert [one.message.id for one in await store.family(parent.message.id)] == children
    await archive(store, first)
    assert await body_of(store, parent.message.id) == b""


async def test_an_archived_parent_keeps_its_body_for_its_open_children(store: Store) -> None:
    parent = await running_parent(store)
    children = await submit(store, 1, parent=parent.message.id)
    await bury(store, parent)
    (letter,) = await letters(store)
    await archive(store, letter)
    delivery = await take_one(store)
    assert (ids_of([delivery]), delivery.parent_body) == (children, parent.message.body)
    assert await store.bury([letter]) == {parent.message.id}
    await complete(store, delivery)
    assert await body_of(store, parent.message.id) == parent.message.body


async def archived_family(store: Store, count: int = 2) -> tuple[str, list[DeadLetter]]:
    """The children of one parent, dead and archived; the parent is done and has lost its body."""
    parent = await running_parent(store)
    await fan_out(store, parent, count)
    await bury(store, *await drain(store))
    found = await letters(store)
    await archive(store, *found)
    assert await body_of(store, parent.message.id) == b""
    return parent.message.id, found


async def test_a_letter_of_one_of_many_comes_with_what_they_share(store: Store) -> None:
    parent = await running_parent(store)
    (child,) = await fan_out(store, parent, 1)
    assert (await account(store, child)).shared == CONTENT
    await bury(store, await take_one(store))
    (letter,) = await letters(store)
    assert (letter.message.body, letter.shared) == (b"to one", CONTENT)
    (found,) = await store.accounts("orders", [child])
    assert as_letter(found) == letter
    assert (await account(store, parent.message.id)).shared is None
    await archive(store, letter)
    assert (await account(store, child)).shared is None


@pytest.mark.parametrize("aged", [False, True])
async def test_a_child_brings_back_what_its_parent_has_lost(bench: Bench, store: Store, aged: bool) -> None:
    parent, (first, second) = await archived_family(store)
    if aged:
        bench.advance(30 * DAY_S)
        while await store.cleanup(Cleanup(store.now())):
            pass
        assert await store.get(parent) is None
    assert await store.bury([first]) == {first.message.id}
    assert await letters(store) == [first]
    assert await store.bury([first, second]) == {second.message.id}
    assert await letters(store) == [first, second]
    assert ((await lane(store)).dead, (await lane(store)).done) == (2, 0)
    await store.redrive("orders", keys([one.message.id for one in (first, second)]), actor="ann")
    deliveries = await drain(store)
    assert [(one.message, one.parent_body) for one in deliveries] == [
        (one.message, CONTENT) for one in (first, second)
    ]
    await complete(store, deliveries[0])
    assert await body_of(store, parent) == CONTENT
    await complete(store, deliveries[1])
    assert await body_of(store, parent) == b""


async def test_a_parent_that_came_back_stays_while_its_children_need_it(bench: Bench, store: Store) -> None:
    parent, (first, second) = await archived_family(store)
    await store.bury([first])
    bench.advance(30 * DAY_S)
    while await store.cleanup(Cleanup(store.now(), keep=0)):
        pass
    assert await body_of(store, parent) == CONTENT
    assert await letters(store) == [first]
    await archive(store, first)
    assert await body_of(store, parent) == b""
    bench.advance(30 * DAY_S)
    while await store.cleanup(Cleanup(store.now(), keep=0)):
        pass
    assert await store.get(parent) is None
    assert await store.bury([second, first]) == {first.message.id, second.message.id}


async def test_a_child_without_what_it_shares_is_refused(store: Store) -> None:
    parent, (first, _) = await archived_family(store)
    with pytest.raises(InvalidMessage, match=parent):
        await store.bury([replace(first, shared=None)])
    assert await letters(store) == []


async def test_a_dead_parent_and_its_dead_child_come_back_in_any_order(bench: Bench, store: Store) -> None:
    parent = await running_parent(store)
    await submit(store, 1, parent=parent.message.id, body=b"to one")
    await bury(store, await take_one(store))
    bench.advance(1)
    await bury(store, parent)
    child, above = await letters(store)
    await archive(store, child, above)
    bench.advance(30 * DAY_S)
    while await store.cleanup(Cleanup(store.now())):
        pass
    assert await store.bury([child]) == {child.message.id}
    assert await store.bury([above]) == {parent.message.id}
    assert await letters(store) == [child, above]
    await store.remove("orders", keys([parent.message.id]), Move.DISCARD, actor="ann")
    await store.redrive("orders", keys([child.message.id]), actor="ann")
    assert (await take_one(store)).parent_body == CONTENT


async def test_a_parent_that_was_done_after_its_children_comes_back_too(bench: Bench, store: Store) -> None:
    parent = await running_parent(store)
    await submit(store, 1, parent=parent.message.id, body=b"to one")
    await bury(store, await take_one(store))
    (letter,) = await letters(store)
    await archive(store, letter)
    await complete(store, parent)
    assert await store.bury([letter]) == {letter.message.id}
    bench.advance(30 * DAY_S)
    while await store.cleanup(Cleanup(store.now(), keep=0)):
        pass
    assert await letters(store) == [letter]
    await store.redrive("orders", keys([letter.message.id]), actor="ann")
    child = await take_one(store)
    assert child.parent_body == CONTENT
    await complete(store, child)
    assert await body_of(store, parent.message.id) == b""
