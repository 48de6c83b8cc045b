"""Moves of dead letters by generation, and what becomes of discarded and replaced ones."""

from __future__ import annotations

import pytest

from redrive.core.letters import LetterKey
from redrive.core.lifecycle import Move, State
from redrive.core.ports import Cleanup
from redrive.core.store import Store
from tests.conformance.backends import Bench
from tests.conformance.families import body_of, fan_out, running_parent
from tests.conformance.makers import (
    DAY_S,
    account,
    append,
    bury,
    complete,
    dead,
    drain,
    entry,
    ids_of,
    keys,
    letters,
    new_id,
    submit,
    take_one,
)

REMOVALS = (Move.DISCARD, Move.REPLACE, Move.ARCHIVE)


async def dead_again(store: Store) -> str:
    """A letter of generation 1."""
    (message_id,) = await dead(store)
    await store.redrive("orders", keys([message_id]), actor="ann")
    await bury(store, await take_one(store))
    return message_id


async def clean_up(bench: Bench, store: Store) -> int:
    bench.advance(30 * DAY_S)
    return await store.cleanup(Cleanup(0, discarded_before_at=store.now() - 7 * round(1000 * DAY_S)))


async def test_a_redrive_of_an_earlier_death_moves_nothing(store: Store) -> None:
    message_id = await dead_again(store)
    for generation in (0, 2):
        assert await store.redrive("orders", [LetterKey(message_id, generation)], actor="ann") == set()
    assert [one.progress.generation for one in await letters(store)] == [1]
    assert await store.redrive("orders", [LetterKey(message_id, 1)], actor="ann") == {message_id}


@pytest.mark.parametrize("move", REMOVALS)
async def test_a_removal_of_an_earlier_death_moves_nothing(store: Store, move: Move) -> None:
    message_id = await dead_again(store)
    assert await store.remove("orders", [LetterKey(message_id, 0)], move, actor="ann") == set()
    assert (await account(store, message_id)).state is State.DEAD
    assert await store.remove("orders", [LetterKey(message_id, 1)], move, actor="ann") == {message_id}


async def test_letters_of_right_and_wrong_generations_in_one_call_move_each_for_itself(store: Store) -> None:
    later = await dead_again(store)
    first, second = await dead(store, 2)
    named = [LetterKey(later, 0), LetterKey(first, 0), LetterKey(second, 1), LetterKey(new_id(), 0)]
    assert await store.redrive("orders", named, actor="ann") == {first}


@pytest.mark.parametrize("move", REMOVALS)
async def test_a_removed_letter_is_gone_from_the_dead_and_says_how(store: Store, move: Move) -> None:
    (message_id,) = await dead(store)
    assert await store.remove("orders", keys([message_id, message_id]), move, actor="ann") == {message_id}
    found = await account(store, message_id)
    assert found.removal is not None
    assert (found.state, found.removal.move, found.removal.actor) == (State.REMOVED, move, "ann")
    assert await letters(store) == []
    assert await store.redrive("orders", keys([message_id]), actor="ann") == set()
    assert await store.remove("orders", keys([message_id]), move, actor="bob") == set()


@pytest.mark.parametrize("move", REMOVALS)
async def test_a_removed_letter_frees_its_dedupe_key(store: Store, move: Move) -> None:
    (message_id,) = await dead(store, dedupe="order-7", body=b"one")
    await store.remove("orders", keys([message_id]), move, actor="ann")
    (receipt,) = await append(store, fresh := entry(store, dedupe="order-7", body=b"another"))
    assert receipt.id == fresh.message.id


async def test_a_replaced_letter_keeps_its_content(store: Store) -> None:
    (message_id,) = await dead(store, body=b"payload")
    (letter,) = await letters(store)
    await store.remove("orders", keys([message_id]), Move.REPLACE, actor="ann")
    found = await account(store, message_id)
    assert (found.message, found.failures, found.reason) == (letter.message, letter.failures, letter.reason)


@pytest.mark.parametrize("move", [Move.CANCEL, Move.BURY, Move.REDRIVE])
async def test_a_move_that_does_not_remove_letters_is_refused(store: Store, move: Move) -> None:
    ids = await dead(store)
    with pytest.raises(ValueError, match="dead letter"):
        await store.remove("orders", keys(ids), move, actor="ann")
    assert (await account(store, ids[0])).state is State.DEAD


@pytest.mark.parametrize("move", REMOVALS)
async def test_a_removed_letter_names_the_operation_that_removed_it(store: Store, move: Move) -> None:
    ids = await dead(store, 2)
    await store.redrive("orders", keys(ids), actor="ann", operation="op-1")
    await bury(store, *await drain(store))
    await store.remove("orders", keys(ids[:1]), move, actor="ann", operation="op-2")
    await store.remove("orders", keys(ids[1:]), move, actor="ann")
    assert [(await account(store, one)).progress.operation for one in ids] == ["op-2", "op-1"]
    assert (await store.tally("op-2")).moved == 1


@pytest.mark.parametrize("move", [Move.DISCARD, Move.REPLACE])
async def test_cleanup_takes_what_was_discarded_or_replaced_long_ago(
    bench: Bench, store: Store, move: Move
) -> None:
    old, kept = await dead(store, 2, body=b"payload")
    await store.remove("orders", keys([old]), move, actor="ann")
    bench.advance(10 * DAY_S)
    (recent,) = await dead(store, body=b"payload")
    await store.remove("orders", keys([recent]), move, actor="ann")
    week_ago = store.now() - 7 * round(1000 * DAY_S)
    assert await store.cleanup(Cleanup(0, discarded_before_at=week_ago)) == 1
    assert await store.get(old) is None
    assert (await account(store, kept)).state is State.DEAD
    assert (await account(store, recent)).message.body == b"payload"


async def test_cleanup_takes_discarded_letters_in_pages(bench: Bench, store: Store) -> None:
    ids = await dead(store, 5)
    await store.remove("orders", keys(ids), Move.DISCARD, actor="ann")
    bench.advance(DAY_S)
    went = [await store.cleanup(Cleanup(0, limit=2, discarded_before_at=store.now())) for _ in range(4)]
    assert went == [2, 2, 1, 0]


async def test_a_discarded_parent_stays_while_its_children_are_open(bench: Bench, store: Store) -> None:
    parent = await running_parent(store)
    children = await submit(store, 1, parent=parent.message.id)
    await bury(store, parent)
    await store.remove("orders", keys([parent.message.id]), Move.DISCARD, actor="ann")
    await clean_up(bench, store)
    (child,) = await drain(store)
    assert (ids_of([child]), child.parent_body) == (children, parent.message.body)
    await complete(store, child)
    await clean_up(bench, store)
    assert await store.get(parent.message.id) is None


async def test_a_discarded_child_lets_go_of_its_parents_body_when_it_is_cleaned_up(
    bench: Bench, store: Store
) -> None:
    parent = await running_parent(store)
    children = await fan_out(store, parent, 1)
    await bury(store, *await drain(store))
    await store.remove("orders", keys(children), Move.DISCARD, actor="ann")
    assert await body_of(store, parent.message.id) == parent.message.body
    await clean_up(bench, store)
    assert await body_of(store, parent.message.id) == b""


async def test_accounts_come_in_the_order_asked_and_leave_out_the_unknown(store: Store) -> None:
    (letter,) = await dead(store, body=b"payload")
    done, waiting = await submit(store, 2)
    await complete(store, await take_one(store))
    (elsewhere,) = await submit(store, queue="mail")
    asked = [waiting, new_id(), letter, elsewhere, done]
    found = await store.accounts("orders", asked)
    assert [one.message.id for one in found] == [waiting, letter, done]
    assert found == [await account(store, one) for one in (waiting, letter, done)]


async def test_accounts_of_nothing_and_of_an_unknown_queue_are_none(store: Store) -> None:
    ids = await submit(store)
    assert await store.accounts("orders", []) == []
    assert await store.accounts("nowhere", ids) == []


async def test_a_whole_page_of_accounts_is_read_at_once(store: Store) -> None:
    ids = await submit(store, 500)
    await bury(store, *await drain(store, limit=500))
    found = await store.accounts("orders", ids)
    assert [one.message.id for one in found] == ids
    assert all(len(one.failures) == 1 for one in found)
