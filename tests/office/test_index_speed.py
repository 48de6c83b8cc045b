"""How long questions about 100,000 dead letters take, in processor time, on an index that was just built."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from redrive.core.verdict import Reason
from redrive.office.filters import parse
from redrive.office.groups import GroupBy
from redrive.office.index import Index
from redrive.office.shape import shape
from redrive.office.sql import SqlLimits
from tests.conformance.backends import Bench
from tests.office.deaths import letter
from tests.office.desks import ANA, make_office
from tests.office.feeds import Telling, ToldStore

pytestmark = [pytest.mark.long, pytest.mark.parametrize("bench", ["sqlite"], indirect=True)]
LETTERS = 100_000
REASONS = tuple(Reason)


@pytest.fixture
async def told(bench: Bench, tmp_path: Path) -> ToldStore:
    """A store that tells of 100,000 letters with payloads of 1 KB, of 1,000 tenants."""
    store = ToldStore(tmp_path / "told.db")
    store.feed = Telling()
    await bench.adopt(store)
    await store.bury([letter(store)])
    for number in range(LETTERS):
        store.feed.died(
            letter(
                store,
                tenant=f"tenant-{number % 1_000}",
                code=str(400 + number % 50),
                reason=REASONS[number % len(REASONS)],
                fingerprint=f"{number % 200:016x}",
                age_ms=number * 800,
                body=b'{"number": %d, "text": "%s"}' % (number, b"x" * 1_000),
            )
        )
    return store


@pytest.fixture
async def index(told: ToldStore, tmp_path: Path) -> AsyncIterator[Index]:
    index = Index(told, tmp_path / "cache", "told")
    yield index
    await index.close()


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """A block that takes no more processor time than this, the index's threads included."""
    began_s = time.process_time()
    yield
    assert time.process_time() - began_s < seconds


async def test_an_index_of_100_000_letters_is_quick(told: ToldStore, index: Index) -> None:
    with within(10):
        await index.catch_up()
    for text in ("", "tenant:tenant-7 code:407", "reason:bounced age:>20h", "tenant:nobody"):
        with within(0.1):
            await index.find(parse(text))
    groups = make_office(told, index).acting(ANA).groups
    for by in GroupBy:
        with within(0.3):
            await groups.list(by)
    with within(0.3):
        await shape(index, parse(""))
    with within(0.5):
        page = await index.find(parse("payload.number:99999"))
    assert page.letters or page.cursor


async def test_sql_over_10_000_letters_is_quick_with_its_copy(told: ToldStore, index: Index) -> None:
    await index.catch_up()
    sql, limits = make_office(told, index).acting(ANA).sql, SqlLimits(letters=10_000)
    for column in ("lastFailureCode", "originalData->>'number'", "substr(movedToDLQAt, 1, 13)"):
        with within(0.5):
            answer = await sql.ask(f"SELECT {column}, COUNT(*) FROM dlq GROUP BY 1 LIMIT 5", limits=limits)  # noqa: S608
        assert answer.copied.letters == 10_000
