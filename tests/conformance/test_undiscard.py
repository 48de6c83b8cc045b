"""Moves.undiscard: the way back from a discard, while the content is kept."""

from __future__ import annotations

import pytest

from redrive.core.letters import LetterKey, OperationTally
from redrive.core.lifecycle import Move, State
from redrive.core.ports import Cleanup
from redrive.core.store import Store
from tests.conformance.backends import Bench
from tests.conformance.makers import (
    DAY_S,
    account,
    bury,
    complete,
    counts,
    dead,
    drain,
    keys,
    lane,
    letters,
    new_id,
    submit,
)


async def discard(store: Store, *ids: str, move: Move = Move.DISCARD) -> None:
    assert await store.remove("orders", keys(ids), move, actor="ann", operation="discarding") == set(ids)


async def test_a_discarded_letter_is_dead_again_as_it_was(store: Store) -> None:
    (message_id,) = await dead(store, body=b"payload")
    await store.redrive("orders", keys([message_id]), actor="ann", operation="first")
    await bury(store, *await drain(store))
    before, (letter,) = await account(store, message_id), await letters(store)
    await discard(store, message_id)
    assert await store.undiscard("orders", keys([message_id]), operation="back") == {message_id}
    assert await account(store, message_id) == before
    assert await letters(store) == [letter]
    assert ((await lane(store)).dead, (await counts(store)).dlq) == (1, 1)
    assert await store.tally("back") == OperationTally(moved=1)


async def test_it_runs_again_after_a_redrive(store: Store) -> None:
    (message_id,) = await dead(store, body=b"payload")
    await discard(store, message_id)
    await store.undiscard("orders", keys([message_id]))
    await store.redrive("orders", keys([message_id]), actor="ann")
    (delivery,) = await drain(store)
    assert delivery.message.body == b"payload"
    await complete(store, delivery)
    assert (await account(store, message_id)).state is State.DONE


@pytest.mark.parametrize("move", [Move.REPLACE, Move.ARCHIVE])
async def test_what_left_in_another_way_does_not_come_back_by_it(store: Store, move: Move) -> None:
    ids = await dead(store)
    await discard(store, *ids, move=move)
    assert await store.undiscard("orders", keys(ids)) == set()
    assert await letters(store) == []


async def test_only_what_is_named_and_discarded_moves(store: Store) -> None:
    discarded, still_dead = await dead(store, 2)
    (waiting,) = await submit(store)
    await discard(store, discarded)
    for name in (LetterKey(discarded, 7), LetterKey(still_dead), LetterKey(waiting), LetterKey(new_id())):
        assert await store.undiscard("orders", [name]) == set()
    assert await store.undiscard("mail", keys([discarded])) == set()
    assert await store.undiscard("orders", keys([discarded, discarded])) == {discarded}
    assert await store.undiscard("orders", keys([discarded])) == set()


async def test_what_came_back_is_not_cleaned_up(bench: Bench, store: Store) -> None:
    ids = await dead(store, body=b"payload")
    await discard(store, *ids)
    await store.undiscard("orders", keys(ids))
    bench.advance(365 * DAY_S)
    assert await store.cleanup(Cleanup(store.now(), keep=0, discarded_before_at=store.now())) == 0
    assert (await account(store, ids[0])).message.body == b"payload"


async def test_its_dedupe_key_stays_free(store: Store) -> None:
    ids = await dead(store, dedupe="order-7")
    await discard(store, *ids)
    (again,) = await submit(store, dedupe="order-7")
    await store.undiscard("orders", keys(ids))
    assert {(await account(store, one)).state for one in (*ids, again)} == {State.DEAD, State.WAITING}
