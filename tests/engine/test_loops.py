"""One app over many event loops: `asyncio.run(app.submit(…))` again and again uses up nothing.

The file is its own child process: a limit on descriptors belongs to a whole process.
"""

from __future__ import annotations

import asyncio
import os
import resource
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from redrive import Redrive, StoreUnavailable
from redrive.wiring import load

RUNS = 120
SPARE = 60
ROOT = Path(__file__).parents[2]


@pytest.fixture(params=["sqlite", "redis"])
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/redrive.db"
    return f"{request.getfixturevalue('redis_url')}?prefix=loops:{os.getpid()}:{tmp_path.name}"


def test_a_new_event_loop_each_time_uses_up_no_descriptors(store_url: str) -> None:
    assert _run("submit", store_url) == str(RUNS)


def test_too_many_open_files_is_told_as_that(tmp_path: Path) -> None:
    assert _run("exhaust", f"sqlite:///{tmp_path}/redrive.db") == "1"


def _run(program: str, store: str) -> str:
    command = [sys.executable, "-m", "tests.engine.test_loops", program, store]
    child = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert child.returncode == 0, child.stderr
    return child.stdout.strip()


def submit_over_many_loops(app: Redrive) -> None:
    for number in range(RUNS):
        asyncio.run(app.submit("orders", number))


def submit_without_descriptors(app: Redrive) -> None:
    """With none left, then one more each time, until it is enough; all is imported before."""
    asyncio.run(_count(app))
    asyncio.run(_submit_as_they_return(app))


async def _submit_as_they_return(app: Redrive) -> None:
    taken: list[int] = []
    with suppress(OSError):
        while len(taken) < 2 * SPARE:
            taken.append(os.open(os.devnull, os.O_RDONLY))
    refused = 0
    while taken:
        problem = await _submit(app)
        if problem is None:
            break
        assert "Too many open files" in problem
        refused += 1
        os.close(taken.pop())
    assert refused > 2, refused
    for each in taken:
        os.close(each)
    await app.close()


async def _submit(app: Redrive) -> str | None:
    try:
        await app.submit("orders", 1)
    except StoreUnavailable as error:
        return str(error)
    return None


async def _count(app: Redrive) -> int:
    async with app:
        return sum(each.pending for each in await app.store.queues())


def _leave_few_descriptors() -> None:
    probe = os.open(os.devnull, os.O_RDONLY)
    os.close(probe)
    resource.setrlimit(resource.RLIMIT_NOFILE, (probe + SPARE, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))


_PROGRAMS = {"submit": submit_over_many_loops, "exhaust": submit_without_descriptors}


if __name__ == "__main__":
    _leave_few_descriptors()
    app = Redrive(settings=load({"store": sys.argv[2]}, environ={}))
    _PROGRAMS[sys.argv[1]](app)
    print(asyncio.run(_count(app)))
