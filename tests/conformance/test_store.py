"""The store as a whole: twins on another thread, what it says of itself, its clock, opening and closing."""

from __future__ import annotations

import asyncio
import time

from redrive.core.condition import Durability, Grade
from redrive.core.lifecycle import State
from redrive.core.message import Lease
from redrive.core.store import Store
from tests.conformance.backends import Bench
from tests.conformance.makers import account, new_token, submit, take_one


async def test_a_twin_works_on_the_same_data(bench: Bench, store: Store) -> None:
    (message_id,) = await submit(store)
    twin = await bench.adopt(store.twin())
    assert (await take_one(twin)).message.id == message_id
    assert (await account(store, message_id)).state is State.CLAIMED


async def test_a_twin_extends_leases_from_another_threads_loop(bench: Bench, store: Store) -> None:
    await submit(store)
    delivery = await take_one(store)
    bench.advance(20)
    twin = store.twin()
    twin.skew_ms = store.skew_ms
    assert await asyncio.to_thread(_extend_elsewhere, twin, delivery.lease) == set()
    bench.advance(20)
    assert await store.reclaim("orders", new_token(), 30, 10) == []


def _extend_elsewhere(twin: Store, lease: Lease) -> object:
    async def extend() -> object:
        await twin.open()
        try:
            return await twin.extend([lease], 30)
        finally:
            await twin.close()

    return asyncio.run(extend())


async def test_closing_a_twin_leaves_the_store_open(store: Store) -> None:
    twin = store.twin()
    await twin.open()
    await twin.close()
    assert await submit(store)


async def test_a_store_says_what_accepted_means(store: Store) -> None:
    description = await store.describe()
    assert description.durability in (Durability.A, Durability.B)
    assert "://" in description.url
    assert description.meaning.strip()


async def test_the_clock_is_near_ours_and_follows_the_skew(bench: Bench, store: Store) -> None:
    assert abs(store.now() - time.time() * 1000) < 5_000
    bench.advance(3_600)
    assert abs(store.now() - time.time() * 1000 - 3_600_000) < 5_000


async def test_calls_under_way_end_before_the_store_closes(bench: Bench) -> None:
    closing, other = await bench.open_store(), await bench.open_store()
    appends = [asyncio.create_task(submit(closing, 20)) for _ in range(5)]
    await asyncio.sleep(0)
    await bench.close_store(closing)
    ids = [message_id for task in appends for message_id in await task]
    for message_id in ids:
        assert (await account(other, message_id)).state is State.WAITING


async def test_a_store_tells_how_full_it_is(store: Store) -> None:
    before = await store.capacity()
    await submit(store, 500, body=b"x" * 4_000)
    after = await store.capacity()
    assert after.used_bytes > before.used_bytes > 0
    assert after.limit_bytes is None or after.limit_bytes >= after.used_bytes
    assert after.waiting_bytes is None or after.waiting_bytes > 1_000_000
    assert after.accepts


async def test_an_examination_says_what_it_found_and_how_to_mend_what_is_not_right(store: Store) -> None:
    findings = await store.examine()
    assert any(one.subject.startswith("durability") for one in findings)
    assert all(one.subject and one.found for one in findings)
    assert all(one.fix for one in findings if one.grade in (Grade.WARNING, Grade.WRONG))
    assert [one for one in findings if one.grade is Grade.WRONG] == []
