"""What the store counts for an operation, in the same statement as the moves (rule 5 of the design)."""

from __future__ import annotations

import pytest

from redrive.core.failure import Kind
from redrive.core.letters import OperationTally
from redrive.core.lifecycle import Move
from redrive.core.message import Delivery
from redrive.core.ports import Cleanup
from redrive.core.settings import FinishedSettings
from redrive.core.store import Store
from redrive.core.verdict import Bury, Reason, Settlement
from tests.conformance.backends import Bench
from tests.conformance.makers import (
    DAY_S,
    MINUTE_S,
    bury,
    complete,
    crash,
    dead,
    failure,
    hold,
    keys,
    new_token,
    release,
    retry,
    take,
    take_one,
)


async def redriven(store: Store, count: int = 1, operation: str = "op-1", **fields: object) -> list[Delivery]:
    """Letters that an operation brought back, handed out."""
    ids = await dead(store, count, **fields)
    await store.redrive("orders", keys(ids), actor="ann", operation=operation)
    return await take(store, count)


async def tally(store: Store, operation: str = "op-1") -> OperationTally:
    return await store.tally(operation)


async def test_an_unknown_operation_has_counted_nothing(store: Store) -> None:
    assert await tally(store) == OperationTally()


async def test_moved_letters_are_counted_once(store: Store) -> None:
    ids = await dead(store, 3)
    await store.redrive("orders", keys(ids[:2]), actor="ann", operation="op-1")
    await store.redrive("orders", keys(ids), actor="ann", operation="op-1")
    await store.redrive("orders", keys(ids), actor="ann", operation="op-2")
    assert await tally(store) == OperationTally(moved=3)
    assert await tally(store, "op-2") == OperationTally()


@pytest.mark.parametrize("move", [Move.DISCARD, Move.REPLACE, Move.ARCHIVE])
async def test_removed_letters_are_counted_as_moved(store: Store, move: Move) -> None:
    ids = await dead(store, 3)
    await store.remove("orders", keys(ids[:2]), move, actor="ann", operation="op-1")
    await store.remove("orders", keys(ids), move, actor="ann")
    assert await tally(store) == OperationTally(moved=2)


async def test_a_tally_is_over_all_queues(store: Store) -> None:
    for queue in ("orders", "mail"):
        ids = await dead(store, 2, queue=queue)
        await store.redrive(queue, keys(ids), actor="ann", operation="op-1")
    await complete(store, *await take(store, queue="mail"))
    assert await tally(store) == OperationTally(moved=4, passed=2, done=2)


async def test_a_first_attempt_that_is_done_has_passed(store: Store) -> None:
    await complete(store, *await redriven(store, 3))
    assert await tally(store) == OperationTally(moved=3, passed=3, done=3)


async def test_a_first_attempt_that_is_retried_has_failed_whatever_comes_of_it(store: Store) -> None:
    await retry(store, *await redriven(store, 2))
    assert await tally(store) == OperationTally(moved=2, failed=2)
    first, second = await take(store)
    await complete(store, first)
    await bury(store, second)
    assert await tally(store) == OperationTally(moved=2, failed=2, done=1, dead=1)


async def test_a_first_attempt_that_dies_has_failed(store: Store) -> None:
    await bury(store, *await redriven(store, 2))
    assert await tally(store) == OperationTally(moved=2, failed=2, dead=2)


async def test_an_attempt_that_was_given_back_is_not_judged(store: Store) -> None:
    await release(store, *await redriven(store))
    await hold(store, await take_one(store), probe_s=0)
    await crash(store, await take_one(store))
    assert await tally(store) == OperationTally(moved=1)
    await complete(store, await take_one(store, alone=True))
    assert await tally(store) == OperationTally(moved=1, passed=1, done=1)


async def test_a_cancelled_message_is_removed_and_not_judged(store: Store) -> None:
    ids = await dead(store, 3)
    await store.redrive("orders", keys(ids), actor="ann", operation="op-1")
    await store.cancel("orders", ids[:1], actor="ann")
    await store.purge("orders", actor="ann")
    assert await tally(store) == OperationTally(moved=3, removed=3)


async def test_a_message_that_expires_untried_has_failed(bench: Bench, store: Store) -> None:
    ids = await dead(store, ttl_s=MINUTE_S)
    await store.redrive("orders", keys(ids), actor="ann", operation="op-1")
    await expire(bench, store)
    assert await tally(store) == OperationTally(moved=1, failed=1, dead=1)


async def test_a_message_that_expires_after_a_failed_attempt_is_judged_once(
    bench: Bench, store: Store
) -> None:
    await retry(store, *await redriven(store, ttl_s=MINUTE_S))
    await expire(bench, store)
    assert await tally(store) == OperationTally(moved=1, failed=1, dead=1)


async def expire(bench: Bench, store: Store) -> None:
    bench.advance(2 * MINUTE_S)
    (expired,) = await store.reclaim("orders", new_token(), 30, 10)
    await store.settle([Settlement(expired, Bury(Reason.EXPIRED, failure(expired, kind=Kind.EXPIRED)))])


async def test_each_operation_counts_its_own_round(store: Store) -> None:
    (delivery,) = await redriven(store)
    await bury(store, delivery)
    await store.redrive("orders", keys([delivery.message.id]), actor="ann", operation="op-2")
    await complete(store, await take_one(store))
    assert await tally(store) == OperationTally(moved=1, failed=1, dead=1)
    assert await tally(store, "op-2") == OperationTally(moved=1, passed=1, done=1)


async def test_a_redrive_without_an_operation_ends_the_counting_of_the_last_one(store: Store) -> None:
    (delivery,) = await redriven(store)
    await bury(store, delivery)
    await store.redrive("orders", keys([delivery.message.id]), actor="ann")
    await complete(store, await take_one(store))
    assert await tally(store) == OperationTally(moved=1, failed=1, dead=1)


async def test_a_refused_verdict_counts_nothing(store: Store) -> None:
    (delivery,) = await redriven(store)
    await complete(store, delivery)
    await bury(store, delivery)
    await complete(store, delivery)
    assert await tally(store) == OperationTally(moved=1, passed=1, done=1)


async def test_a_store_that_keeps_no_finished_records_counts_all_the_same(bench: Bench) -> None:
    store = await bench.open_store(FinishedSettings(keep=0))
    await complete(store, *await redriven(store, 2))
    assert await tally(store) == OperationTally(moved=2, passed=2, done=2)


async def test_a_tally_is_kept_for_days(bench: Bench, store: Store) -> None:
    await redriven(store)
    bench.advance(20 * DAY_S)
    await store.cleanup(Cleanup(store.now(), keep=0))
    assert await tally(store) == OperationTally(moved=1)
