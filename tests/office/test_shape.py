"""The table of tenant by age: which bucket a letter is in, the totals, and who may see which rows."""

from __future__ import annotations

from redrive.core.store import Store
from redrive.office.filters import Filter, parse
from redrive.office.index import Index
from redrive.office.shape import shape
from tests.office.deaths import MINUTE_MS, bury, letter


async def test_letters_are_counted_by_tenant_in_buckets_that_double(index: Index, store: Store) -> None:
    week, month = 7 * 24 * 60, 30 * 24 * 60
    ages = {"acme": [1, 4, 6, month + 1], "umbra": [1_279, 1_281, week + 1], "tiny": [11]}
    await bury(
        store,
        [
            letter(store, tenant=name, age_ms=age * MINUTE_MS)
            for name, minutes in ages.items()
            for age in minutes
        ],
    )
    table = await shape(index, Filter())
    assert table.labels == (
        "5m",
        "10m",
        "20m",
        "40m",
        "80m",
        "160m",
        "320m",
        "640m",
        "1280m",
        "7d",
        "30d",
        "30d+",
    )
    assert [(row.tenant, row.total, row.counts) for row in table.rows] == [
        ("acme", 4, (2, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1)),
        ("umbra", 3, (0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 0)),
        ("tiny", 1, (0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0)),
    ]
    assert (table.total, table.counts) == (8, (2, 1, 1, 0, 0, 0, 0, 0, 1, 1, 1, 1))


async def test_the_totals_are_of_all_tenants_also_where_few_are_shown(index: Index, store: Store) -> None:
    await bury(store, [letter(store, tenant=name) for name in ("a", "a", "b", "c")])
    table = await shape(index, Filter(), limit=1)
    assert [row.tenant for row in table.rows] == ["a"]
    assert (table.total, table.others) == (4, 2)


async def test_a_filter_and_a_scope_narrow_the_table(index: Index, store: Store) -> None:
    await bury(
        store, [letter(store, tenant=name, code=code) for name in ("a", "b") for code in ("450", "550")]
    )
    table = await shape(index, parse("code:450"), scope="b")
    assert [(row.tenant, row.total) for row in table.rows] == [("b", 1)]
    assert table.total == 1


async def test_a_letter_that_died_again_is_as_old_as_its_first_death(index: Index, store: Store) -> None:
    await bury(store, [letter(store, first_age_ms=15 * MINUTE_MS)])
    table = await shape(index, Filter())
    assert table.counts[:4] == (0, 0, 1, 0)


async def test_without_letters_the_table_is_empty(index: Index) -> None:
    table = await shape(index, Filter())
    assert (table.total, table.rows, set(table.counts)) == (0, (), {0})
