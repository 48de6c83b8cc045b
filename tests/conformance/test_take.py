"""Source.take: waiting messages by name, for those whose fate a broker has told."""

from __future__ import annotations

from redrive.core.letters import LetterKey, RedriveResult
from redrive.core.lifecycle import State
from redrive.core.store import Store
from redrive.core.verdict import Reason
from tests.conformance.makers import (
    account,
    bury,
    complete,
    counts,
    dead,
    drain,
    keys,
    new_id,
    new_token,
    retry,
    submit,
    take_one,
)

LEASE_S = 30.0


async def test_a_message_is_taken_by_its_name_and_not_its_neighbour(store: Store) -> None:
    first, second = await submit(store, 2)
    (taken,) = await store.take("orders", keys([second]), new_token(), LEASE_S)
    assert (taken.message.id, taken.progress.attempts) == (second, 1)
    assert taken.progress.state is State.CLAIMED
    assert [one.message.id for one in await drain(store)] == [first]


async def test_what_is_not_due_yet_and_what_crashed_is_taken_too(store: Store) -> None:
    (later,) = await submit(store, delay_s=600)
    assert [one.message.id for one in await store.take("orders", keys([later]), new_token(), LEASE_S)] == [
        later
    ]


async def test_only_what_waits_in_that_generation_is_taken(store: Store) -> None:
    (dead_id,) = await dead(store)
    (waiting,) = await submit(store)
    unknown = new_id()
    asked = [*keys([dead_id, unknown]), LetterKey(waiting, 3)]
    assert await store.take("orders", asked, new_token(), LEASE_S) == []
    assert await store.take("nowhere", keys([waiting]), new_token(), LEASE_S) == []
    (taken,) = await store.take("orders", [LetterKey(waiting, 0)], new_token(), LEASE_S)
    assert taken.message.id == waiting


async def test_the_same_token_again_returns_what_it_still_holds(store: Store) -> None:
    ids, token = await submit(store, 2), new_token()
    first, _ = await store.take("orders", keys(ids), token, LEASE_S)
    await complete(store, first)
    (again,) = await store.take("orders", keys(ids), token, LEASE_S)
    assert again.message.id == ids[1]


async def test_what_was_taken_is_settled_like_any_attempt(store: Store) -> None:
    (message_id,) = await dead(store)
    await store.redrive("orders", keys([message_id]), actor="ann", operation="op-1")
    (taken,) = await store.take("orders", [LetterKey(message_id, 1)], new_token(), LEASE_S)
    await retry(store, taken, delay_s=600)
    (again,) = await store.take("orders", [LetterKey(message_id, 1)], new_token(), LEASE_S)
    await bury(store, again, reason=Reason.EXHAUSTED)
    ended = await account(store, message_id)
    assert [one.result for one in ended.redrives] == [RedriveResult.DEAD]
    assert (ended.state, ended.progress.attempts, len(ended.failures)) == (State.DEAD, 2, 3)
    tally = await store.tally("op-1")
    assert (tally.moved, tally.passed, tally.failed, tally.dead) == (1, 0, 1, 1)


async def test_the_counts_of_its_queue_follow(store: Store) -> None:
    ids = await submit(store, 3)
    taken = await store.take("orders", keys(ids[:2]), new_token(), LEASE_S)
    now = await counts(store)
    assert (now.pending, now.processing) == (1, 2)
    for one in taken:
        await complete(store, one)
    now = await counts(store)
    assert (now.pending, now.processing, now.published) == (1, 0, 2)
    assert (await take_one(store)).message.id == ids[2]
