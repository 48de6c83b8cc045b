"""Records: versioned documents with expiry and listing; Journal: rows that are only ever added."""

from __future__ import annotations

import asyncio

import pytest

from redrive.core.errors import VersionConflict
from redrive.core.store import Store
from tests.conformance.backends import Bench

DOCUMENT = {"name": "ä ✓", "nested": {"list": [1, 2.5, None, True, "x"]}, "empty": {}}


async def test_a_record_comes_back_as_it_was_put(store: Store) -> None:
    version = await store.put_record("key", "a:1", DOCUMENT, expected=0)
    record = await store.get_record("key", "a:1")
    assert record is not None
    assert (record.kind, record.id, record.version) == ("key", "a:1", version)
    assert record.document == DOCUMENT


async def test_an_unknown_record_is_none(store: Store) -> None:
    assert await store.get_record("key", "a") is None
    await store.put_record("key", "a", {}, expected=None)
    assert await store.get_record("note", "a") is None
    assert await store.get_record("key", "b") is None


async def test_each_put_makes_a_new_version(store: Store) -> None:
    first = await store.put_record("key", "a", {"n": 1}, expected=0)
    second = await store.put_record("key", "a", {"n": 2}, expected=first)
    third = await store.put_record("key", "a", {"n": 3}, expected=None)
    assert 0 < first < second < third
    record = await store.get_record("key", "a")
    assert record is not None
    assert (record.version, record.document) == (third, {"n": 3})


@pytest.mark.parametrize("wrong", [0, 99])
async def test_a_put_of_another_version_is_refused_and_changes_nothing(store: Store, wrong: int) -> None:
    version = await store.put_record("key", "a", {"n": 1}, expected=0)
    with pytest.raises(VersionConflict) as caught:
        await store.put_record("key", "a", {"n": 2}, expected=wrong)
    assert (caught.value.expected, caught.value.found) == (wrong, version)
    record = await store.get_record("key", "a")
    assert record is not None
    assert record.document == {"n": 1}


async def test_a_put_that_expects_a_record_is_refused_where_there_is_none(store: Store) -> None:
    with pytest.raises(VersionConflict):
        await store.put_record("key", "a", {}, expected=1)
    assert await store.get_record("key", "a") is None


async def test_of_two_first_puts_at_once_one_wins(bench: Bench) -> None:
    stores = [await bench.open_store(), await bench.open_store()]
    answers = await asyncio.gather(
        *(store.put_record("key", "a", {"n": 1}, expected=0) for store in stores for _ in range(3)),
        return_exceptions=True,
    )
    assert sum(isinstance(answer, int) for answer in answers) == 1
    assert sum(isinstance(answer, VersionConflict) for answer in answers) == 5


async def test_a_record_expires_by_itself(bench: Bench, store: Store) -> None:
    await store.put_record("worker", "a", {"n": 1}, expected=0, ttl_s=60)
    await store.put_record("worker", "b", {"n": 2}, expected=0)
    bench.advance(50)
    assert await store.get_record("worker", "a") is not None
    bench.advance(20)
    assert await store.get_record("worker", "a") is None
    assert [record.id for record in await store.list_records("worker")] == ["b"]
    assert await store.delete_record("worker", "a", expected=None) is False
    await store.put_record("worker", "a", {"n": 3}, expected=0)
    record = await store.get_record("worker", "a")
    assert record is not None
    assert record.document == {"n": 3}


async def test_a_put_renews_or_ends_the_expiry(bench: Bench, store: Store) -> None:
    for record_id in ("renewed", "ended"):
        await store.put_record("worker", record_id, {}, expected=0, ttl_s=60)
    bench.advance(50)
    await store.put_record("worker", "renewed", {}, expected=None, ttl_s=60)
    await store.put_record("worker", "ended", {}, expected=None)
    bench.advance(50)
    assert await store.get_record("worker", "renewed") is not None
    bench.advance(1_000)
    assert [record.id for record in await store.list_records("worker")] == ["ended"]


async def test_records_are_listed_by_id_in_pages(store: Store) -> None:
    for record_id in ("c", "a", "e", "b", "d"):
        await store.put_record("key", record_id, {"id": record_id}, expected=0)
    await store.put_record("note", "a", {}, expected=0)
    page = await store.list_records("key", limit=2)
    assert [(one.id, one.kind, one.document) for one in page] == [
        ("a", "key", {"id": "a"}),
        ("b", "key", {"id": "b"}),
    ]
    assert [one.id for one in await store.list_records("key", after="b", limit=2)] == ["c", "d"]
    assert [one.id for one in await store.list_records("key", after="d")] == ["e"]
    assert await store.list_records("key", after="e") == []


async def test_a_page_is_full_although_records_have_expired(bench: Bench, store: Store) -> None:
    for number in range(10):
        await store.put_record("worker", f"{number}", {}, expected=0, ttl_s=60 if number < 6 else None)
    bench.advance(120)
    assert [one.id for one in await store.list_records("worker", limit=3)] == ["6", "7", "8"]


async def test_delete_follows_the_rule_of_put(store: Store) -> None:
    version = await store.put_record("key", "a", {}, expected=0)
    with pytest.raises(VersionConflict):
        await store.delete_record("key", "a", expected=version + 1)
    assert await store.delete_record("key", "a", expected=version) is True
    assert await store.get_record("key", "a") is None
    assert await store.delete_record("key", "a", expected=None) is False
    await store.put_record("key", "a", {"n": 2}, expected=0)
    assert await store.delete_record("key", "a", expected=None) is True


async def test_records_are_shared_by_all_stores(bench: Bench) -> None:
    writer, reader = await bench.open_store(), await bench.open_store()
    await writer.put_record("key", "a", {"n": 1}, expected=0)
    assert await reader.get_record("key", "a") is not None


async def test_a_journal_counts_from_one_without_gaps(store: Store) -> None:
    positions = [await store.write_journal("audit", {"n": number}) for number in range(3)]
    assert positions == [1, 2, 3]
    rows = await store.read_journal("audit")
    assert [(row.position, row.document) for row in rows] == [(1, {"n": 0}), (2, {"n": 1}), (3, {"n": 2})]
    assert all(abs(row.at - store.now()) < 5_000 for row in rows)


async def test_a_journal_keeps_whole_documents(store: Store) -> None:
    await store.write_journal("audit", DOCUMENT)
    (row,) = await store.read_journal("audit")
    assert row.document == DOCUMENT


async def test_a_journal_row_after_another_head_is_refused(store: Store) -> None:
    assert await store.write_journal("audit", {}, expected_head=0) == 1
    assert await store.write_journal("audit", {}, expected_head=1) == 2
    for wrong in (0, 1, 3):
        with pytest.raises(VersionConflict) as caught:
            await store.write_journal("audit", {}, expected_head=wrong)
        assert (caught.value.expected, caught.value.found) == (wrong, 2)
    assert len(await store.read_journal("audit")) == 2


async def test_a_journal_is_read_in_pages(store: Store) -> None:
    for number in range(5):
        await store.write_journal("audit", {"n": number})
    assert [row.position for row in await store.read_journal("audit", limit=2)] == [1, 2]
    assert [row.position for row in await store.read_journal("audit", after=2, limit=2)] == [3, 4]
    assert [row.position for row in await store.read_journal("audit", after=4)] == [5]
    assert await store.read_journal("audit", after=5) == []


async def test_journals_are_apart(store: Store) -> None:
    await store.write_journal("audit", {"n": 1})
    assert await store.write_journal("changes", {"n": 2}) == 1
    assert await store.read_journal("unknown") == []


async def test_writers_at_once_leave_no_gap(bench: Bench) -> None:
    stores = [await bench.open_store(), await bench.open_store()]
    positions = await asyncio.gather(
        *(store.write_journal("audit", {"n": number}) for number in range(10) for store in stores)
    )
    assert sorted(positions) == list(range(1, 21))
    assert [row.position for row in await stores[0].read_journal("audit")] == list(range(1, 21))
