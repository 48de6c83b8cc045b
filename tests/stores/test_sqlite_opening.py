"""Opening a file: what can be wrong is said clearly, and two processes that start at once migrate once."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import apsw
import pytest

from redrive.core.errors import StoreError
from redrive.core.failure import Failure, Kind
from redrive.core.ports import Cleanup
from redrive.stores.sqlite import SqliteStore
from redrive.stores.statements import load_migrations
from tests.conformance import makers

_OPEN = """
import asyncio, sys
from redrive.stores.sqlite import SqliteStore
from redrive.core.lanes import LaneState
async def main():
    store = SqliteStore(sys.argv[1])
    await store.open()
    await store.set_queue("orders", LaneState.RUNNING)
    await store.close()
asyncio.run(main())
"""


_FIRST_SCHEMA_ROWS = """
insert into queues (queue, name) values (1, 'orders');
insert into lanes (lane, queue, tenant, turn, waiting_main, done) values (1, 1, 'acme', 0, 1, 1);
insert into messages (seq, id, queue, lane, state, track, due_at, expires_at, attempts, crashes, generation,
  size, enqueued_at, ttl_s, first_track, finished_at)
values (1, 'done', 1, 1, 'done', 'main', 0, 9e15, 1, 0, 0, 2, 0, 60, 'main', 0),
  (2, 'waiting', 1, 1, 'waiting', 'main', 0, 9e15, 0, 0, 0, 2, 0, 60, 'main', null);
insert into bodies (seq, body) values (2, x'7b7d');
insert into failures (seq, number, at, attempt, kind, reason, fingerprint)
values (2, 1, 7, 1, 'temporary', 'no route', 'f');
"""


async def refusal(path: Path) -> str:
    with pytest.raises(StoreError) as caught:
        await SqliteStore(path).open()
    return str(caught.value)


async def test_a_file_that_is_not_a_database_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("my notes, not a database, long enough to have a header of some sort. " * 10)
    assert "not a Redrive database" in await refusal(path)
    assert path.read_text().startswith("my notes")


async def test_a_database_of_another_program_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    with apsw.Connection(str(path)) as other:
        other.execute("create table things (thing)")
    assert "another program" in await refusal(path)


async def test_a_newer_schema_asks_for_an_upgrade(tmp_path: Path) -> None:
    path = tmp_path / "redrive.db"
    store = SqliteStore(path)
    await store.open()
    await store.close()
    connection = apsw.Connection(str(path))
    connection.pragma("user_version", len(load_migrations("sqlite")) + 1)
    connection.close()
    assert "newer Redrive" in await refusal(path)


async def test_a_file_of_the_first_schema_is_migrated_with_what_it_holds(tmp_path: Path) -> None:
    path = tmp_path / "redrive.db"
    connection = apsw.Connection(str(path))
    connection.execute(load_migrations("sqlite")[0])
    connection.execute(_FIRST_SCHEMA_ROWS)
    connection.pragma("user_version", 1)
    connection.close()
    store = SqliteStore(path)
    await store.open()
    assert await store.cleanup(Cleanup(finished_before_at=store.now())) == 1
    delivery = await makers.take_one(store)
    assert (delivery.message.id, delivery.message.parent, delivery.probe) == ("waiting", None, False)
    await makers.submit(store, parent="waiting")
    await makers.complete(store, delivery)
    found = await makers.account(store, "waiting")
    assert found.message.body == b"{}"
    assert found.failures == (Failure(7, 1, Kind.TEMPORARY, "no route", fingerprint="f"),)
    await store.close()


async def test_a_folder_is_refused(tmp_path: Path) -> None:
    assert "is a folder" in await refusal(tmp_path)


async def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    assert str(tmp_path / "gone") in await refusal(tmp_path / "gone" / "redrive.db")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
async def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    folder = _closed_folder(tmp_path)
    assert "cannot be written" in await refusal(folder / "redrive.db")


def _closed_folder(parent: Path) -> Path:
    folder = parent / "closed"
    folder.mkdir(mode=0o500)
    return folder


async def test_a_store_that_is_not_open_says_so(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "redrive.db")
    with pytest.raises(StoreError, match="not open"):
        await store.queues()


async def test_closing_twice_is_harmless(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "redrive.db")
    await store.open()
    await store.close()
    await store.close()


def test_processes_that_start_at_once_migrate_once(tmp_path: Path) -> None:
    path = tmp_path / "redrive.db"
    children = [
        subprocess.Popen([sys.executable, "-c", _OPEN, str(path)], stderr=subprocess.PIPE, text=True)
        for _ in range(4)
    ]
    errors = [child.communicate(timeout=60)[1] for child in children]
    assert [child.returncode for child in children] == [0] * 4, errors
    connection = apsw.Connection(str(path))
    assert connection.pragma("user_version") == len(load_migrations("sqlite"))
    connection.close()


async def test_a_backup_is_a_store_and_never_overwrites(tmp_path: Path) -> None:
    store, target = SqliteStore(tmp_path / "redrive.db"), tmp_path / "copy.db"
    await store.open()
    ids = await makers.submit(store, 300)
    steps: list[tuple[int, int]] = []
    await store.backup(target, lambda done, total: steps.append((done, total)))
    with pytest.raises(StoreError, match="never overwrites"):
        await store.backup(target)
    await store.close()
    copy = SqliteStore(target)
    await copy.open()
    assert [delivery.message.id for delivery in await makers.take(copy, 500)] == ids
    await copy.close()
    assert steps[-1][0] == steps[-1][1] > 0


async def test_a_process_that_runs_while_the_file_is_migrated_writes_nothing_more(tmp_path: Path) -> None:
    """It would not write what a newer schema wants to find; reading goes on."""
    store = SqliteStore(tmp_path / "redrive.db")
    await store.open()
    await makers.submit(store)
    newer = apsw.Connection(str(store.path))
    newer.pragma("user_version", len(load_migrations("sqlite")) + 1)
    newer.close()
    with pytest.raises(StoreError, match="restart this process"):
        await makers.submit(store)
    with pytest.raises(StoreError, match="restart this process"):
        await makers.take(store)
    assert (await makers.counts(store)).pending == 1
    await store.close()
