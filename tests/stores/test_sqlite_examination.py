"""How full a file is, and what `examine` finds wrong with it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import apsw
import pytest

from redrive.core.condition import Finding, Grade
from redrive.core.ports import Cleanup
from redrive.core.settings import FinishedSettings
from redrive.stores.sqlite import SqliteStore
from redrive.stores.sqlite.examination import examine
from tests.conformance import makers
from tests.waiting import wait_until


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    store = SqliteStore(tmp_path / "redrive.db")
    await store.open()
    yield store
    await store.close()


def by_subject(findings: list[Finding]) -> dict[str, Finding]:
    return {one.subject: one for one in findings}


async def test_a_sound_file_has_nothing_to_fix(store: SqliteStore) -> None:
    findings = by_subject(await store.examine())
    expected = {
        "sqlite version",
        "journal mode",
        "durability",
        "folder",
        "free disk",
        "log",
        "privacy",
        "completeness",
        "structure",
    }
    assert set(findings) == expected
    assert all(one.found for one in findings.values())
    # How much room the disk of the test machine has is its own affair.
    wrong = [one for one in findings.values() if one.grade is not Grade.RIGHT and one.subject != "free disk"]
    assert wrong == []


async def test_a_damaged_page_is_found(tmp_path: Path) -> None:
    path = tmp_path / "redrive.db"
    store = SqliteStore(path)
    await store.open()
    await makers.submit(store, 200, body=b"x" * 2_000)
    await store.close()
    with path.open("r+b") as file:
        root = apsw.Connection(str(path)).execute("select rootpage from sqlite_schema where name = 'due'").get
        file.seek((root - 1) * 4_096)
        file.write(b"\xff" * 200)
    await store.open()
    found = by_subject(await store.examine())["structure"]
    await store.close()
    assert found.grade is Grade.WRONG
    assert "backup" in found.fix


async def test_a_check_that_takes_too_long_says_so(store: SqliteStore) -> None:
    await makers.submit(store, 1_000, body=b"x" * 1_000)
    findings = examine(store.path, accepts=True, synced=True, check_s=-1.0)
    found = by_subject(findings)["structure"]
    assert (found.grade, "backup" in found.fix) == (Grade.UNKNOWN, True)


async def test_capacity_tells_the_file_the_disk_and_what_is_in_it(store: SqliteStore) -> None:
    await makers.submit(store, 1_000, body=b"x" * 2_000)
    await makers.submit(store, 500, queue="mail", body=b"x" * 2_000)
    await makers.bury(store, *await makers.take(store, 500, queue="mail"))
    found = await store.capacity()
    assert found.limit_bytes is not None
    assert found.limit_bytes > found.used_bytes > 3_000_000
    assert found.waiting_bytes is not None
    assert found.dead_bytes is not None
    assert 2_000_000 < found.waiting_bytes < 3_500_000
    assert 1_000_000 < found.dead_bytes < 2_000_000
    assert (found.accepts, found.note) == (True, "")


async def test_an_empty_store_has_a_capacity(store: SqliteStore) -> None:
    found = await store.capacity()
    assert (found.waiting_bytes, found.finished_bytes, found.dead_bytes, found.accepts) == (0, 0, 0, True)


async def test_only_what_is_finished_counts_as_such_until_it_is_cleaned_up(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "redrive.db", finished=FinishedSettings(remember_s=0.001))
    await store.open()
    await makers.submit(store, 400, body=b"x" * 2_000)
    assert (await store.capacity()).finished_bytes == 0
    await makers.complete(store, *await makers.take(store, 400))
    finished = await store.capacity()
    assert finished.waiting_bytes == 0
    assert finished.finished_bytes is not None
    assert 50_000 < finished.finished_bytes < 1_000_000

    async def is_clean() -> bool:
        await store.cleanup(Cleanup(store.now() + 60_000))
        return (await store.capacity()).finished_bytes == 0

    await wait_until(is_clean, 10, "nothing that is finished is remembered")
    await store.close()
