"""Lanes.queues: the counts of the outbox, exactly; Upkeep.cleanup: what may go and what must stay."""

from __future__ import annotations

from redrive.core.lanes import LaneState
from redrive.core.lifecycle import State
from redrive.core.ports import Cleanup
from redrive.core.settings import FinishedSettings
from redrive.core.store import QueueCounts, Store
from tests.conformance.backends import Bench
from tests.conformance.makers import (
    DAY_S,
    MINUTE_S,
    account,
    append,
    bury,
    claim,
    complete,
    counts,
    crash,
    dead,
    drain,
    entry,
    keys,
    letters,
    release,
    retry,
    submit,
    take,
    take_one,
)


async def finish(store: Store, count: int = 1, **fields: object) -> list[str]:
    """Ids of `count` messages that are done."""
    ids = await submit(store, count, **fields)
    await complete(store, *await drain(store))
    return ids


async def clean(store: Store, before_at: int, keep: int | None = None) -> int:
    """Clean up until nothing goes; how many went."""
    total = 0
    while went := await store.cleanup(Cleanup(before_at, keep)):
        total += went
    return total


async def test_each_count_is_exact(store: Store) -> None:
    await submit(store, 9, tenant="a")
    done, letter, later, crashed, given_back, *held = await take(store, 7)
    await complete(store, done)
    await bury(store, letter)
    await retry(store, later, delay_s=MINUTE_S)
    await crash(store, crashed)
    await release(store, given_back, delay_s=MINUTE_S)
    await submit(store, 4, tenant="b", delay_s=DAY_S)
    oldest = entry(store, tenant="c", delay_s=-DAY_S)
    await append(store, oldest)
    assert await counts(store) == QueueCounts(
        queue="orders",
        state=LaneState.RUNNING,
        pending=4,
        scheduled=5,
        retry_scheduled=1,
        processing=len(held),
        published=1,
        dlq=1,
        suspects=1,
        oldest_due_at=oldest.due_at,
    )


async def test_what_becomes_due_is_pending(bench: Bench, store: Store) -> None:
    await submit(store, 2, delay_s=10 * MINUTE_S)
    await submit(store, 1)
    await retry(store, await take_one(store), delay_s=20 * MINUTE_S)
    seen = []
    for _ in range(3):
        found = await counts(store)
        seen.append((found.pending, found.scheduled, found.retry_scheduled))
        bench.advance(11 * MINUTE_S)
    assert seen == [(0, 2, 1), (2, 0, 1), (3, 0, 0)]


async def test_the_counts_do_not_depend_on_a_claim_having_looked(bench: Bench, store: Store) -> None:
    await submit(store, 5, delay_s=MINUTE_S)
    bench.advance(3 * MINUTE_S)
    before = await counts(store)
    claimed = await claim(store, 1)
    await release(store, *claimed.deliveries)
    after = await counts(store)
    assert (before.pending, after.pending) == (5, 5)


async def test_a_redriven_message_is_pending(store: Store) -> None:
    ids = await dead(store)
    await store.redrive("orders", keys(ids), actor="ann")
    found = await counts(store)
    assert (found.pending, found.dlq, found.published) == (1, 0, 0)


async def test_an_emptied_queue_is_still_listed(store: Store) -> None:
    await finish(store)
    assert await counts(store) == QueueCounts("orders", LaneState.RUNNING, 0, 0, 0, 0, 1, 0, 0, None)


async def test_queues_are_listed_by_name_with_their_state(store: Store) -> None:
    for queue in ("c", "a", "b"):
        await submit(store, queue=queue)
    await store.set_queue("b", LaneState.PAUSED)
    assert [(one.queue, one.state, one.pending) for one in await store.queues()] == [
        ("a", LaneState.RUNNING, 1),
        ("b", LaneState.PAUSED, 1),
        ("c", LaneState.RUNNING, 1),
    ]


async def test_a_new_store_has_no_queue(store: Store) -> None:
    assert await store.queues() == []


async def test_cleanup_removes_finished_records_by_age(bench: Bench, store: Store) -> None:
    old = await finish(store, 3)
    bench.advance(10 * MINUTE_S)
    middle_at = store.now()
    bench.advance(10 * MINUTE_S)
    young = await finish(store, 2)
    assert await clean(store, middle_at) == 3
    assert [await store.get(message_id) for message_id in old] == [None] * 3
    assert [(await account(store, message_id)).state for message_id in young] == [State.DONE] * 2


async def test_cleanup_keeps_the_youngest(bench: Bench, store: Store) -> None:
    ids: list[str] = []
    for _ in range(5):
        ids += await finish(store)
        bench.advance(1)
    bench.advance(3 * MINUTE_S)
    assert await clean(store, 0, keep=2) == 3
    known = [message_id for message_id in ids if await store.get(message_id) is not None]
    assert known == ids[3:]


async def test_cleanup_works_in_pages(bench: Bench, store: Store) -> None:
    await finish(store, 5)
    bench.advance(3 * MINUTE_S)
    pages = [await store.cleanup(Cleanup(store.now(), limit=2)) for _ in range(4)]
    assert pages == [2, 2, 1, 0]


async def test_cleanup_removes_what_was_cancelled(bench: Bench, store: Store) -> None:
    (message_id,) = await submit(store)
    await store.cancel("orders", [message_id], actor="ann")
    bench.advance(3 * MINUTE_S)
    assert await clean(store, store.now()) == 1
    assert await store.get(message_id) is None


async def test_cleanup_never_takes_a_dead_letter_or_a_live_message(bench: Bench, store: Store) -> None:
    letter_ids = await dead(store, 2)
    held = await submit(store)
    await take(store)
    waiting = await submit(store, 2)
    scheduled = await submit(store, delay_s=DAY_S)
    redriven = await dead(store, queue="mail")
    await store.redrive("mail", keys(redriven), actor="ann")
    bench.advance(365 * DAY_S)
    assert await clean(store, store.now(), keep=0) == 0
    states = [(await account(store, one)).state for one in held + waiting + scheduled + redriven]
    assert states == [State.CLAIMED] + [State.WAITING] * 4
    assert [letter.message.id for letter in await letters(store)] == letter_ids


async def test_cleanup_takes_the_history_of_a_redriven_message_only_when_it_is_done(
    bench: Bench, store: Store
) -> None:
    (message_id,) = await dead(store)
    await store.redrive("orders", keys([message_id]), actor="ann")
    bench.advance(MINUTE_S)
    await clean(store, store.now())
    assert len((await account(store, message_id)).failures) == 1
    await complete(store, await take_one(store))
    bench.advance(3 * MINUTE_S)
    assert await clean(store, store.now()) == 1
    assert await store.get(message_id) is None


async def test_no_finished_record_stays_where_none_is_kept(bench: Bench) -> None:
    store = await bench.open_store(FinishedSettings(keep=0))
    (message_id,) = await submit(store)
    await retry(store, await take_one(store))
    await complete(store, await take_one(store))
    bench.advance(3 * MINUTE_S)
    assert await clean(store, 0, keep=0) == 1
    assert await store.get(message_id) is None
    assert (await counts(store)).published == 1


async def test_cleanup_removes_dedupe_keys_that_ended_and_no_others(bench: Bench) -> None:
    store = await bench.open_store(FinishedSettings(dedupe_s=600))
    await finish(store, dedupe="old")
    bench.advance(20 * MINUTE_S)
    (young,) = await finish(store, dedupe="young")
    (live,) = await submit(store, dedupe="live")
    await clean(store, store.now())
    receipts = await append(store, *(entry(store, dedupe=key) for key in ("old", "young", "live")))
    assert [one.status for one in receipts] == ["accepted", "duplicate", "duplicate"]
    assert [one.id for one in receipts[1:]] == [young, live]
