"""Files that people delete or replace: what was accepted and is gone is noticed, and nothing else is."""

from __future__ import annotations

import logging
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from redrive.core.condition import Grade
from redrive.core.errors import StoreError
from redrive.stores.sqlite import SqliteStore
from tests.conformance import makers
from tests.stores.redis_server import opened
from tests.waiting import wait_until

SUBMITTER = """
import asyncio, os, sys
from redrive.stores.sqlite import SqliteStore
from tests.conformance import makers

async def main():
    store = SqliteStore(sys.argv[1])
    await store.open()
    await makers.submit(store, 20)
    if sys.argv[2] == "close":
        await store.close()
    print("accepted", flush=True)
    sys.stdin.read()

asyncio.run(main())
"""


def submit(path: Path, then: str = "stay") -> None:
    """Twenty messages by a process that is killed, or has closed the store before."""
    process = subprocess.Popen(
        [sys.executable, "-c", SUBMITTER, str(path), then],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=Path(__file__).parents[2],
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"accepted\n"
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=30)


def log_of(path: Path) -> Path:
    return path.with_name(path.name + "-wal")


async def completeness(store: SqliteStore) -> Grade:
    return next(one.grade for one in await store.examine() if one.subject == "completeness")


async def test_a_log_deleted_between_two_runs_is_told_once_and_doctor_remembers(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "redrive.db"
    async with opened(SqliteStore(path)) as store:
        await makers.submit(store)
    submit(path)
    log_of(path).unlink()
    with caplog.at_level(logging.ERROR):
        for _ in range(2):
            async with opened(SqliteStore(path)) as store:
                assert (await makers.counts(store)).pending == 1
                assert await completeness(store) is Grade.WARNING
    assert caplog.text.count("has lost messages that were accepted") == 1


def killed(path: Path) -> None:
    submit(path)


def closed(path: Path) -> None:
    submit(path, "close")


def copied_elsewhere_and_back(path: Path) -> None:
    shutil.copy(path, path.with_name("copy.db"))
    submit(path)
    log_of(path).unlink()
    path.with_name("copy.db").rename(path)


def made_anew(path: Path) -> None:
    submit(path)
    path.unlink()
    log_of(path).unlink()


@pytest.mark.parametrize("what", [killed, closed, copied_elsewhere_and_back, made_anew])
async def test_what_is_no_loss_is_not_told_as_one(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, what: Callable[[Path], None]
) -> None:
    path = tmp_path / "redrive.db"
    async with opened(SqliteStore(path)) as store:
        await makers.submit(store)
    what(path)
    async with opened(SqliteStore(path)) as store:
        assert await completeness(store) is Grade.RIGHT
    assert "lost" not in caplog.text


async def test_a_log_deleted_under_a_running_process_is_saved_and_writing_stops(tmp_path: Path) -> None:
    path = tmp_path / "redrive.db"
    accepted = 0
    async with opened(SqliteStore(path)) as store:
        accepted += len(await makers.submit(store, 30))
        log_of(path).unlink()

        async def refused() -> bool:
            nonlocal accepted
            try:
                accepted += len(await makers.submit(store))
            except StoreError as error:
                return "was deleted or replaced while it was in use; what it held was moved" in str(error)
            return False

        await wait_until(refused, 30, "the deleted log is noticed")
        with pytest.raises(StoreError, match="restart every process"):
            await makers.submit(store)
    async with opened(SqliteStore(path)) as store:
        assert (await makers.counts(store)).pending == accepted


async def test_a_file_replaced_under_a_running_process_is_not_written_any_more(tmp_path: Path) -> None:
    path = tmp_path / "redrive.db"
    async with opened(SqliteStore(path)) as store:
        await makers.submit(store)
        path.rename(path.with_name("away.db"))

        async def refused() -> bool:
            try:
                await makers.submit(store)
            except StoreError as error:
                return "was deleted or replaced while it was in use" in str(error)
            return False

        await wait_until(refused, 30, "the replaced file is noticed")
