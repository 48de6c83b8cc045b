"""Totals: what processes counted adds up in one place, once each, with bounded labels, and by the minute."""

from __future__ import annotations

import asyncio
from collections import Counter

from redrive.core.lanes import LaneState
from redrive.core.ports import Cleanup
from redrive.core.store import Store
from redrive.core.totals import (
    BY_QUEUE,
    LABEL_LIMITS,
    MINUTE_MS,
    OTHER,
    SUM,
    Flow,
    LabelKind,
    Measured,
    Minute,
    Occurrence,
    Total,
    TotalsBatch,
)
from tests.conformance.backends import Bench
from tests.conformance.makers import DAY_S, MINUTE_S, QUEUE, dead, new_token, submit, take

Sums = dict[tuple[str, str, str], int]


async def add(store: Store, *totals: Total, source: str | None = None, number: int = 1) -> None:
    await store.add_totals(TotalsBatch(source or new_token(), number, totals))


async def sums(store: Store) -> Sums:
    return {(one.name.value, one.label, one.part): one.count for one in await store.totals()}


async def test_what_processes_counted_adds_up(bench: Bench) -> None:
    first, second = await bench.open_store(), await bench.open_store()
    done = Total(Flow.DONE, QUEUE, "", 2)
    await add(first, done, Total(Occurrence.FAILURES, "550", "permanent", 1))
    await add(second, done, Total(Occurrence.FAILURES, "550", "temporary", 4))
    await add(
        second, Total(Measured.HANDLER, QUEUE, "3", 5), Total(Measured.HANDLER, QUEUE, SUM, 12_345_678_901)
    )
    assert await sums(first) == {
        ("done", QUEUE, ""): 4,
        ("failures", "550", "permanent"): 1,
        ("failures", "550", "temporary"): 4,
        ("handler", QUEUE, "3"): 5,
        ("handler", QUEUE, SUM): 12_345_678_901,
    }


async def test_nothing_was_counted_in_a_new_store(store: Store) -> None:
    assert await store.totals() == []
    assert await store.minutes(QUEUE, 0) == await store.minutes(None, 0) == []
    assert await store.letter_ages(QUEUE, [0, store.now()]) == [0, 0]


async def test_a_batch_that_is_repeated_counts_once(bench: Bench, store: Store) -> None:
    bench.begin(MINUTE_S)
    for number in (1, 1, 2, 1, 2, 2):
        await add(store, Total(Flow.DONE, QUEUE, "", 10), source="one", number=number)
    await add(store, Total(Flow.DONE, QUEUE, "", 1), source="another")
    assert await sums(store) == {("done", QUEUE, ""): 21}
    assert [one.done for one in await store.minutes(QUEUE, 0)] == [21]


async def test_batches_at_once_lose_nothing(bench: Bench) -> None:
    stores = [await bench.open_store(), await bench.open_store()]
    await asyncio.gather(
        *(add(store, Total(Flow.ACCEPTED, QUEUE, "", 1)) for store in stores for _ in range(20))
    )
    assert await sums(stores[0]) == {("accepted", QUEUE, ""): 40}


async def test_labels_are_given_to_the_first_and_the_rest_is_other(bench: Bench) -> None:
    stores, most = [await bench.open_store(), await bench.open_store()], LABEL_LIMITS[LabelKind.TENANT]
    tenants = [f"t{number}" for number in range(most + 10)]
    for store in stores:
        await add(store, *(Total(Occurrence.PROCESSED, tenant, "", 1) for tenant in tenants))
    found = await sums(stores[0])
    assert found == {
        **{("processed", tenant, ""): 2 for tenant in tenants[:most]},
        ("processed", OTHER, ""): 20,
    }


async def test_a_label_once_given_stays_and_is_shared_by_all_that_count_by_it(store: Store) -> None:
    most = LABEL_LIMITS[LabelKind.TENANT]
    await add(store, *(Total(Occurrence.PROCESSED, f"t{number}", "", 1) for number in range(most)))
    await add(
        store, Total(Occurrence.DEAD_BY_TENANT, "late", "", 5), Total(Occurrence.DEAD_BY_TENANT, "t0", "", 2)
    )
    await add(store, Total(Occurrence.PROCESSED, "late", "", 1_000_000))
    found = await sums(store)
    assert (found["dead_by_tenant", OTHER, ""], found["dead_by_tenant", "t0", ""]) == (5, 2)
    assert found["processed", OTHER, ""] == 1_000_000


async def test_labels_of_one_kind_do_not_use_up_another(store: Store) -> None:
    await add(store, *(Total(Flow.DONE, f"q{number}", "", 1) for number in range(120)))
    await add(store, *(Total(Occurrence.FAILURES, f"c{number}", "temporary", 1) for number in range(60)))
    kinds = Counter(name for name, label, _ in await sums(store) if label != OTHER)
    assert kinds == {"done": LABEL_LIMITS[LabelKind.QUEUE], "failures": LABEL_LIMITS[LabelKind.CODE]}


async def test_a_queue_that_is_deleted_leaves_its_label_to_another_with_all_that_was_counted_of_it(
    bench: Bench, store: Store
) -> None:
    bench.begin(MINUTE_S)
    most = LABEL_LIMITS[LabelKind.QUEUE]
    await add(store, *(Total(Flow.DONE, f"q{number}", "", 1) for number in range(most)))
    counted = [Total(name, "q0", part, 7) for name in BY_QUEUE for part in ("", "3", SUM)]
    await add(store, *counted, Total(Occurrence.PROCESSED, "q0", "", 2))
    await add(store, Total(Flow.DONE, "late", "", 5))
    await store.set_queue("q0", LaneState.PAUSED)
    assert (await store.delete_queue("q0")).gone
    await add(store, Total(Flow.DONE, "later", "", 6), Total(Flow.DONE, "q0", "", 3))
    found = await sums(store)
    assert {key: count for key, count in found.items() if key[1] == "q0"} == {("processed", "q0", ""): 2}
    assert (found["done", "later", ""], found["done", OTHER, ""], found["done", "q1", ""]) == (6, 5 + 3, 1)
    assert await store.minutes("q0", 0) == []
    by_queue = {one.queue: one.done for one in await store.minutes(None, 0)}
    assert by_queue == {f"q{number}": 1 for number in range(1, most)} | {"later": 6, OTHER: 8}


async def test_a_queue_named_other_takes_nothing_along_of_those_that_are_counted_with_it(
    store: Store,
) -> None:
    queues = [OTHER, *(f"q{number}" for number in range(LABEL_LIMITS[LabelKind.QUEUE] + 1))]
    await add(store, *(Total(Flow.DONE, queue, "", 1) for queue in queues))
    assert (await store.delete_queue(OTHER)).gone
    assert (await sums(store))["done", OTHER, ""] == 2
    assert sum(one.done for one in await store.minutes(None, 0)) == len(queues)


async def test_a_queue_that_is_refused_keeps_what_was_counted_of_it(store: Store) -> None:
    await submit(store)
    await add(store, Total(Flow.ACCEPTED, QUEUE, "", 1))
    assert not (await store.delete_queue(QUEUE)).gone
    assert await sums(store) == {("accepted", QUEUE, ""): 1}
    assert len(await store.minutes(QUEUE, 0)) == 1


async def test_minutes_say_what_became_of_messages_and_when(bench: Bench, store: Store) -> None:
    began_at = store.now()
    await add(store, Total(Flow.ACCEPTED, QUEUE, "", 3), Total(Flow.DONE, QUEUE, "", 1))
    await add(store, Total(Flow.ACCEPTED, "refunds", "", 9), Total(Occurrence.ATTEMPTS, "", "1", 1))
    bench.advance(2 * MINUTE_S)
    counted = [Total(flow, QUEUE, "", number) for number, flow in enumerate(Flow, 1)]
    await add(store, *counted)
    first, second = await store.minutes(QUEUE, 0)
    assert first == Minute(first.at, QUEUE, accepted=3, done=1)
    assert second == Minute(second.at, QUEUE, accepted=1, done=2, retried=3, dead=4, released=5)
    assert first.at % MINUTE_MS == 0
    assert began_at - MINUTE_MS <= first.at <= store.now() - 2 * MINUTE_MS + 1_000
    assert second.at - first.at in (2 * MINUTE_MS, 3 * MINUTE_MS)
    assert await store.minutes(QUEUE, second.at) == [second]
    assert await store.minutes("unknown", 0) == []


async def test_minutes_of_each_queue_can_be_read_at_once(bench: Bench, store: Store) -> None:
    for number in range(120):
        await add(store, Total(Flow.ACCEPTED, f"q{number:03}", "", 1))
    bench.advance(61 * MINUTE_S)
    await add(store, Total(Flow.DONE, "q000", "", 7))
    *early, last = await store.minutes(None, 0)
    assert last == Minute(last.at, "q000", done=7)
    assert sum(one.accepted for one in early) == 120
    assert {one.queue for one in early} == {OTHER, *(f"q{number:03}" for number in range(100))}
    assert await store.minutes(None, last.at) == [last]


async def test_minutes_in_different_hours_come_in_order(bench: Bench, store: Store) -> None:
    for number in range(1, 5):
        await add(store, Total(Flow.DEAD, QUEUE, "", number))
        bench.advance(50 * MINUTE_S)
    found = await store.minutes(QUEUE, 0)
    assert [one.dead for one in found] == [1, 2, 3, 4]
    assert [one.at for one in found] == sorted(one.at for one in found)


async def test_minutes_are_kept_for_a_week_and_totals_for_ever(bench: Bench, store: Store) -> None:
    await add(store, Total(Flow.DONE, QUEUE, "", 1))
    bench.advance(6.9 * DAY_S)
    await store.cleanup(Cleanup(0))
    assert len(await store.minutes(QUEUE, 0)) == 1
    bench.advance(0.2 * DAY_S)
    assert await store.minutes(QUEUE, 0) == []
    await store.cleanup(Cleanup(0))
    await add(store, Total(Flow.DONE, QUEUE, "", 1))
    assert await sums(store) == {("done", QUEUE, ""): 2}


async def test_letters_are_counted_by_when_they_died(bench: Bench, store: Store) -> None:
    await dead(store, 2)
    between_at = store.now()
    bench.advance(60)
    await dead(store, 3)
    await dead(store, 1, queue="refunds")
    now = store.now() + 1_000
    assert await store.letter_ages(QUEUE, [0, between_at + 1_000, now]) == [0, 2, 5]
    assert await store.letter_ages("refunds", [between_at + 1_000, now]) == [0, 1]


async def test_the_lanes_whose_turn_comes_next_are_told_in_that_order(store: Store) -> None:
    for tenant in ("a", "b", "c", "d"):
        await submit(store, 5, tenant=tenant)
    await submit(store, 1, tenant="later", delay_s=60)
    assert [lane.tenant for lane in await store.next_lanes(QUEUE)] == ["a", "b", "c", "d"]
    assert len(await take(store, 3)) == 3
    assert len(await take(store, 1)) == 1
    assert [lane.tenant for lane in await store.next_lanes(QUEUE, limit=3)] == ["b", "c", "d"]
    assert await store.next_lanes(QUEUE, limit=0) == []
    assert await store.next_lanes("unknown") == []


async def test_the_lanes_of_some_tenants_are_those_that_a_page_of_all_shows(store: Store) -> None:
    for tenant in ("a", "b", "c"):
        await submit(store, 2, tenant=tenant)
    await take(store, 1)
    every = {one.tenant: one for one in await store.lanes(QUEUE)}
    found = await store.lanes_of(QUEUE, ["c", "unknown", "a"])
    assert sorted(found, key=lambda lane: lane.tenant) == [every["a"], every["c"]]
    assert await store.lanes_of("unknown", ["a"]) == []
    assert await store.lanes_of(QUEUE, []) == []
