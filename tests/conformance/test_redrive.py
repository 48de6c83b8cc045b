"""Ledger.redrive: back to waiting, once, with everything that led there."""

from __future__ import annotations

import asyncio

from redrive.core.letters import RedriveResult
from redrive.core.lifecycle import State
from redrive.core.store import Store
from redrive.core.verdict import Reason
from tests.conformance.backends import Bench
from tests.conformance.makers import (
    DAY_S,
    MINUTE_S,
    account,
    bury,
    complete,
    counts,
    dead,
    drain,
    ids_of,
    keys,
    lane,
    letters,
    new_id,
    release,
    retry,
    submit,
    take,
    take_one,
)


async def results(store: Store, message_id: str) -> list[RedriveResult]:
    return [one.result for one in (await account(store, message_id)).redrives]


async def test_a_redriven_letter_waits_again_from_the_beginning(bench: Bench, store: Store) -> None:
    (message_id,) = await submit(store, body=b"payload", ttl_s=DAY_S)
    await retry(store, await take_one(store))
    await bury(store, await take_one(store), reason=Reason.EXHAUSTED)
    before = await account(store, message_id)
    bench.advance(2 * DAY_S)
    assert await store.redrive("orders", keys([message_id]), actor="ann", operation="op-1") == {message_id}
    after = await account(store, message_id)
    progress = after.progress
    assert (progress.state, progress.generation, progress.operation) == (State.WAITING, 1, "op-1")
    assert (progress.attempts, progress.crashes) == (0, 0)
    assert abs(progress.due_at - store.now()) < 5_000
    assert abs(progress.expires_at - store.now() - 1000 * DAY_S) < 5_000
    assert (after.message, after.failures, after.reason) == (before.message, before.failures, None)


async def test_a_redrive_is_recorded_with_its_actor_and_operation(store: Store) -> None:
    (message_id,) = await dead(store)
    await store.redrive("orders", keys([message_id]), actor="ann", operation="op-1")
    (redriven,) = (await account(store, message_id)).redrives
    assert (redriven.actor, redriven.operation, redriven.generation) == ("ann", "op-1", 1)
    assert redriven.result is RedriveResult.PENDING
    assert abs(redriven.at - store.now()) < 5_000


async def test_a_redriven_letter_leaves_the_letters_and_the_counters(store: Store) -> None:
    first, second = await dead(store, 2)
    await store.redrive("orders", keys([first]), actor="ann")
    assert [letter.message.id for letter in await letters(store)] == [second]
    found = await lane(store)
    assert (found.waiting, found.dead) == (1, 1)
    assert (await counts(store)).dlq == 1


async def test_a_redriven_message_is_handed_out_with_its_generation(store: Store) -> None:
    (message_id,) = await dead(store, body=b"payload")
    await store.redrive("orders", keys([message_id]), actor="ann", operation="op-1")
    delivery = await take_one(store)
    assert (delivery.message.id, delivery.message.body) == (message_id, b"payload")
    progress = delivery.progress
    assert (progress.attempts, progress.generation, progress.operation) == (1, 1, "op-1")


async def test_only_dead_letters_of_that_queue_move(store: Store) -> None:
    done, held, waiting = await submit(store, 3)
    first, _ = await take(store, 2)
    await complete(store, first)
    (elsewhere,) = await dead(store, queue="mail")
    ids = [done, held, waiting, elsewhere, new_id()]
    assert await store.redrive("orders", keys(ids), actor="ann") == set()
    assert (await account(store, elsewhere)).state is State.DEAD
    assert (await account(store, waiting)).redrives == ()


async def test_a_second_redrive_moves_nothing(store: Store) -> None:
    (message_id,) = await dead(store)
    assert await store.redrive("orders", keys([message_id, message_id]), actor="ann") == {message_id}
    assert await store.redrive("orders", keys([message_id]), actor="bob") == set()
    found = await account(store, message_id)
    assert (found.progress.generation, len(found.redrives)) == (1, 1)
    assert ids_of(await drain(store)) == [message_id]


async def test_two_redrives_at_once_move_each_letter_once(bench: Bench) -> None:
    stores = [await bench.open_store(), await bench.open_store()]
    ids = await dead(stores[0], 20)
    moved = await asyncio.gather(
        stores[0].redrive("orders", keys(ids[:15]), actor="ann"),
        stores[1].redrive("orders", keys(ids[5:]), actor="bob"),
        stores[0].redrive("orders", keys(ids), actor="cem"),
    )
    assert sorted(message_id for some in moved for message_id in some) == sorted(ids)
    assert sorted(ids_of(await drain(stores[1]))) == sorted(ids)


async def test_what_came_of_a_redrive_is_recorded_when_it_is_done(store: Store) -> None:
    (message_id,) = await dead(store)
    await store.redrive("orders", keys([message_id]), actor="ann")
    await retry(store, await take_one(store))
    assert await results(store, message_id) == [RedriveResult.PENDING]
    await complete(store, await take_one(store))
    assert await results(store, message_id) == [RedriveResult.DONE]


async def test_what_came_of_a_redrive_is_recorded_when_it_is_cancelled(store: Store) -> None:
    (message_id,) = await dead(store)
    await store.redrive("orders", keys([message_id]), actor="ann")
    await store.cancel("orders", [message_id], actor="bob")
    assert await results(store, message_id) == [RedriveResult.REMOVED]


async def test_dead_redriven_and_dead_again_keeps_the_whole_history(bench: Bench, store: Store) -> None:
    (message_id,) = await submit(store)
    for generation in range(3):
        delivery = await take_one(store)
        assert delivery.progress.generation == generation
        await bury(store, delivery, why=f"cause {generation}")
        (letter,) = await letters(store)
        assert letter.progress.generation == generation
        assert [one.reason for one in letter.failures] == [f"cause {n}" for n in range(generation + 1)]
        assert [one.result for one in letter.redrives] == [RedriveResult.DEAD] * generation
        bench.advance(MINUTE_S)
        assert await store.redrive("orders", keys([message_id]), actor="ann") == {message_id}
    assert [one.generation for one in (await account(store, message_id)).redrives] == [1, 2, 3]
    await complete(store, await take_one(store))
    assert await results(store, message_id) == [RedriveResult.DEAD, RedriveResult.DEAD, RedriveResult.DONE]
    assert await letters(store) == []


async def test_a_letter_that_died_again_is_the_youngest(bench: Bench, store: Store) -> None:
    first, second = await submit(store, 2)
    for delivery in await drain(store):
        await bury(store, delivery)
        bench.advance(1)
    await store.redrive("orders", keys([first]), actor="ann")
    await bury(store, await take_one(store))
    assert [letter.message.id for letter in await letters(store)] == [second, first]


async def test_a_worker_of_an_earlier_generation_is_refused(store: Store) -> None:
    (message_id,) = await submit(store)
    stale = await take_one(store)
    await bury(store, stale)
    await store.redrive("orders", keys([message_id]), actor="ann")
    assert await complete(store, stale) == {message_id}
    current = await take_one(store)
    assert await release(store, stale) == {message_id}
    assert await complete(store, current) == set()


async def test_many_letters_are_redriven_in_one_call(store: Store) -> None:
    ids = await submit(store, 500)
    await bury(store, *await drain(store, limit=500))
    assert await store.redrive("orders", keys(ids), actor="ann") == set(ids)
    assert len(await drain(store, limit=500)) == 500
