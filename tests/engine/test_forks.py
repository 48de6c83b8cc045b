"""Forks: a child opens its own store, keeps nothing of its parent's, and is as safe as any other process.

The file is its own child process: forking inside a test run would take pytest's threads along.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import pytest

from redrive import Redrive, StoreError
from redrive.stores.sqlite import SqliteStore
from redrive.wiring import load
from tests.waiting import wait_in_thread

CHILDREN = 30
THREADS = 4
ROOT = Path(__file__).parents[2]


@pytest.fixture(params=["sqlite", "redis"])
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/redrive.db"
    return f"{request.getfixturevalue('redis_url')}?prefix=forks:{os.getpid()}:{tmp_path.name}"


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/redrive.db"


def test_every_forked_child_submits_while_its_parent_is_busy(store_url: str) -> None:
    accepted = int(_run("family", store_url))
    assert asyncio.run(_count(make_app(store_url))) == accepted > CHILDREN


def test_an_orphan_does_not_hold_the_turn_of_its_killed_parent(sqlite_url: str, tmp_path: Path) -> None:
    _run("orphan", sqlite_url, expected=-signal.SIGKILL)
    (child,) = (int(line) for line in (tmp_path / "orphan").read_text().split())
    try:
        os.kill(child, 0)
        app = make_app(sqlite_url)
        asyncio.run(_submit(app))
        assert asyncio.run(_count(app)) == 2
    finally:
        (tmp_path / "end").touch()


def test_what_a_child_accepts_outlives_the_close_of_every_other_process(
    sqlite_url: str, tmp_path: Path
) -> None:
    """Its parent is dead, and another process opens and closes the file: nobody may think it is the last."""
    _run("heir", sqlite_url, expected=-signal.SIGKILL)
    app = make_app(sqlite_url)
    assert asyncio.run(_count(app)) == 2
    assert (tmp_path / "redrive.db-wal").exists(), "the log was removed under the child"
    (tmp_path / "go").touch()
    wait_in_thread((tmp_path / "gone").exists, 20)
    assert asyncio.run(_count(app)) == 3


def test_a_store_that_was_opened_before_the_fork_says_so(sqlite_url: str) -> None:
    assert "open it here as well" in _run("stranger", sqlite_url)


def _run(program: str, store: str, *, expected: int = 0) -> str:
    command = [sys.executable, "-m", "tests.engine.test_forks", program, store]
    # A file, not a pipe: a child that outlives its parent would keep a pipe open.
    with tempfile.TemporaryFile("w+") as output:
        code = subprocess.run(command, cwd=ROOT, stdout=output, stderr=output, timeout=90).returncode
        output.seek(0)
        said = output.read()
    assert code == expected, said
    return said.strip()


def make_app(store: str) -> Redrive:
    return Redrive(settings=load({"store": store}, environ={}))


async def _submit(app: Redrive) -> None:
    async with asyncio.timeout(10), app:
        await app.submit("orders", 1)


async def _count(app: Redrive) -> int:
    async with app:
        return sum(each.pending for each in await app.store.queues())


def family(app: Redrive) -> None:
    """Threads submit without a pause while children are forked, each of which submits once."""
    stop, counts, sync = threading.Event(), [0] * THREADS, app.sync

    def submit(place: int) -> None:
        while not stop.is_set():
            sync.submit("orders", place)
            counts[place] += 1

    threads = [threading.Thread(target=submit, args=(place,)) for place in range(THREADS)]
    for thread in threads:
        thread.start()
    wait_in_thread(lambda: all(counts), 30)
    children = [_fork(lambda: app.sync.submit("orders", "child")) for _ in range(CHILDREN)]
    codes = [_ended(child) for child in children]
    stop.set()
    for thread in threads:
        thread.join()
    app.sync.close()
    assert codes == [0] * CHILDREN, codes
    print(sum(counts) + CHILDREN)


def orphan(app: Redrive) -> None:
    """Die in our turn, while a child lives that was forked before."""
    folder = _folder(app)

    async def die() -> NoReturn:
        await app.submit("orders", 1)
        child = _fork(lambda: wait_in_thread((folder / "end").exists, 30))
        (folder / "orphan").write_text(str(child))
        store = app.store
        assert isinstance(store, SqliteStore)
        assert store._workings()._opened.lock.take(5.0)
        _die()

    asyncio.run(die())


def heir(app: Redrive) -> None:
    """Die after a child has submitted; it submits once more when it is told to."""
    folder = _folder(app)

    def submit_twice() -> None:
        app.sync.submit("orders", "before")
        (folder / "ready").touch()
        wait_in_thread((folder / "go").exists, 30)
        app.sync.submit("orders", "after")
        (folder / "gone").touch()

    async def die() -> NoReturn:
        await app.submit("orders", 1)
        _fork(submit_twice)
        wait_in_thread((folder / "ready").exists, 30)
        _die()

    asyncio.run(die())


def stranger(app: Redrive) -> None:
    """A child that uses the store itself, not the app."""

    async def ask() -> None:
        async with app:
            store = app.store
            child = _fork(lambda: print(_refusal(store), flush=True))
            assert _ended(child) == 0

    asyncio.run(ask())


def _refusal(store: object) -> str:
    assert isinstance(store, SqliteStore)
    call = store.queues()
    try:
        call.send(None)
    except StoreError as error:
        return str(error)
    return "it answered"


def _fork(work: Callable[[], object]) -> int:
    """A child that does its work and nothing else."""
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        work()
        code = 0
    except BaseException:  # noqa: BLE001 - the parent sees the exit code, whoever reads the output sees why
        traceback.print_exc()
    finally:
        os._exit(code)


def _ended(child: int) -> int:
    """The exit code of a child; one that hangs is killed and counts as failed."""
    code: list[int] = []

    def over() -> bool:
        found, status = os.waitpid(child, os.WNOHANG)
        if found:
            code.append(os.waitstatus_to_exitcode(status))
        return bool(code)

    wait_in_thread(over, 30)
    if not code:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        return 99
    return code[0]


def _die() -> NoReturn:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("still alive")


def _folder(app: Redrive) -> Path:
    return Path(app.settings.store.removeprefix("sqlite:///")).parent


_PROGRAMS = {"family": family, "orphan": orphan, "heir": heir, "stranger": stranger}


if __name__ == "__main__":
    _PROGRAMS[sys.argv[1]](make_app(sys.argv[2]))
