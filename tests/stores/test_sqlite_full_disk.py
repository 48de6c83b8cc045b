"""A full disk, on a small filled file system: new work is refused, what was accepted drains.

The file is its own child process: the mount is made in a name space of its own and goes with it.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import apsw
import pytest

from redrive.core.errors import StoreFull, StoreUnavailable
from redrive.core.lanes import LaneChange, LaneState
from redrive.core.lifecycle import Move
from redrive.core.ports import Cleanup
from redrive.core.verdict import Complete
from redrive.stores.sqlite import SqliteStore
from redrive.stores.sqlite.reserve import Room
from tests.conformance import makers

_MOUNTED = 'mount -t tmpfs -o size=48m tmpfs "$1" && shift && exec "$@"'


def run_on_small_disk(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """Run a command that sees a file system of 48 MiB at `folder`."""
    return subprocess.run(
        ["unshare", "-rm", "sh", "-c", _MOUNTED, "sh", str(folder), *command],
        capture_output=True,
        text=True,
        timeout=100,
        cwd=Path(__file__).parents[2],
    )


@pytest.fixture
def small_disk(tmp_path: Path) -> Path:
    """A folder where a small file system can be mounted."""
    problem = "unshare is not installed"
    try:
        tried = run_on_small_disk(tmp_path, "true")
        problem = tried.stderr.strip() or f"exit {tried.returncode}"
        if tried.returncode == 0:
            return tmp_path
    except FileNotFoundError:
        pass
    reason = f"a small file system cannot be mounted here: {problem}"
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)


def test_a_full_disk_refuses_new_work_and_drains_what_was_accepted(small_disk: Path) -> None:
    child = run_on_small_disk(small_disk, sys.executable, "-m", __name__, str(small_disk), "drain")
    assert child.returncode == 0, child.stderr
    assert child.stdout.splitlines()[-1] == "accepts again"


def test_a_full_disk_lets_operators_free_it(small_disk: Path) -> None:
    child = run_on_small_disk(small_disk, sys.executable, "-m", __name__, str(small_disk), "operate")
    assert child.returncode == 0, child.stderr
    assert child.stdout.splitlines()[-1] == "accepts again"


async def discard_and_archive(folder: Path) -> None:
    """Everything that takes letters out, with the records and audit rows that come with it."""
    store = SqliteStore(folder / "redrive.db")
    await store.open()
    accepted = await _fill(store)
    while batch := await makers.take(store, 100):
        await makers.bury(store, *batch)
    await _fill_disk(store, folder)
    await store.put_record("operation", "1", {"state": "running"}, expected=0)
    await store.write_journal("audit", {"what": "discard"})
    await store.set_lane("orders", "acme", LaneChange(state=LaneState.PAUSED))
    dead = makers.keys(accepted)
    moved = await store.redrive("orders", dead[:1], actor="ops")
    moved |= await store.remove("orders", dead[1:100], Move.DISCARD, actor="ops", operation="1")
    moved |= await store.remove("orders", dead[100:], Move.ARCHIVE, actor="ops", operation="1")
    assert moved == set(accepted)
    await store.cancel("orders", accepted[:1], actor="ops")
    await store.put_record("operation", "1", {"state": "done"}, expected=1)
    while await store.cleanup(Cleanup(store.now() + 1, discarded_before_at=store.now() + 1)):
        pass
    (folder / "other").unlink()
    await _accept_again(store)
    await store.close()
    print("accepts again")


def test_a_read_error_while_room_is_short_fails_the_submit_and_no_other(small_disk: Path) -> None:
    child = run_on_small_disk(small_disk, sys.executable, "-m", __name__, str(small_disk), "misread")
    assert child.returncode == 0, child.stderr
    assert child.stdout.splitlines()[-1] == "accepts again"


async def misread(folder: Path) -> None:
    """The pages are counted only where room is short; one such count fails."""
    store = SqliteStore(folder / "redrive.db")
    await store.open()
    original = Room._pages

    def pages(_: Room) -> tuple[int, int, int]:
        Room._pages = original  # type: ignore[method-assign]
        raise apsw.IOError("disk I/O error")

    Room._pages = pages  # type: ignore[method-assign]
    with pytest.raises(StoreUnavailable, match="disk I/O error"):
        await makers.submit(store)
    assert Room._pages is original
    await _accept_again(store)
    await store.close()
    print("accepts again")


async def fill_and_drain(folder: Path) -> None:
    store = SqliteStore(folder / "redrive.db")
    await store.open()
    accepted = await _fill(store)
    accepted += await _fill_disk(store, folder)
    drained: list[str] = []
    while batch := await makers.take(store, 100):
        assert await makers.settle(store, Complete(), *batch) == set()
        drained += [delivery.message.id for delivery in batch]
    assert sorted(drained) == sorted(accepted)
    (folder / "other").unlink()
    await _accept_again(store)
    await store.close()
    print("accepts again")


@pytest.mark.parametrize("program", ["reopen", "unreserved"])
def test_a_store_on_a_full_disk_is_opened_by_its_reserve_or_says_that_the_disk_is_full(
    small_disk: Path, program: str
) -> None:
    child = run_on_small_disk(small_disk, sys.executable, "-m", __name__, str(small_disk), program)
    assert child.returncode == 0, child.stderr
    assert child.stdout.splitlines()[-1] == "accepts again"


async def reopen(folder: Path) -> None:
    """Every process ends, the disk fills up, and an operator's command is the first to open the store."""
    dead = await _filled_and_closed(folder)
    store = SqliteStore(folder / "redrive.db")
    await store.open()
    assert len(await makers.letters(store)) == 1
    with pytest.raises(StoreFull, match="free some space"):
        await makers.submit(store)
    assert await store.remove("orders", makers.keys(dead), Move.DISCARD, actor="ops") == set(dead)
    (folder / "other").unlink()
    await _accept_again(store)
    await store.close()
    print("accepts again")


async def open_without_reserve(folder: Path) -> None:
    await _filled_and_closed(folder)
    (folder / "redrive.db-reserve").write_bytes(b"")
    _fill_file(folder / "more")
    store = SqliteStore(folder / "redrive.db")
    with pytest.raises(StoreFull, match="the disk is full"):
        await store.open()
    (folder / "more").unlink()
    (folder / "other").unlink()
    await store.open()
    await _accept_again(store)
    await store.close()
    print("accepts again")


async def _filled_and_closed(folder: Path) -> list[str]:
    """One dead letter in a store that nobody has open, on a disk without a byte left."""
    store = SqliteStore(folder / "redrive.db")
    await store.open()
    dead = await makers.dead(store)
    await store.close()
    _fill_file(folder / "other")
    return dead


async def _fill(store: SqliteStore) -> list[str]:
    accepted: list[str] = []
    try:
        while True:
            accepted += await makers.submit(store, 50, body=b"x" * 2_000)
    except StoreFull:
        return accepted


async def _fill_disk(store: SqliteStore, folder: Path) -> list[str]:
    """Another program fills the disk, also the room that the store's own log gives up, until it refuses."""
    accepted: list[str] = []
    async with asyncio.timeout(30):
        while True:
            _fill_file(folder / "other")
            try:
                accepted += await makers.submit(store, 50, body=b"x" * 2_000)
            except StoreFull:
                break
    with pytest.raises(StoreFull, match="free some space"):
        await makers.submit(store, 50, body=b"x" * 2_000)
    return accepted


async def _accept_again(store: SqliteStore) -> None:
    """The store looks for room once a second; until it has looked it may still refuse."""
    async with asyncio.timeout(30):
        while True:
            try:
                await makers.submit(store, 50, body=b"x" * 2_000)
                return
            except StoreFull:
                await store.wait(["orders"], 0.2)


def _fill_file(path: Path) -> None:
    with path.open("ab", buffering=0) as file:
        try:
            while True:
                file.write(b"x" * 4_096)
        except OSError:
            return


_PROGRAMS = {
    "operate": discard_and_archive,
    "misread": misread,
    "drain": fill_and_drain,
    "reopen": reopen,
    "unreserved": open_without_reserve,
}


if __name__ == "__main__":
    asyncio.run(_PROGRAMS[sys.argv[2]](Path(sys.argv[1])))
