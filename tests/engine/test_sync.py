"""Submitting from code that does not await: scripts, threads, and a process that forked."""

from __future__ import annotations

import asyncio
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from redrive import Conflict, Redrive, Submission
from redrive.wiring import load


@pytest.fixture
def app(tmp_path: Path) -> Redrive:
    return Redrive(settings=load({"store": f"sqlite:///{tmp_path}/redrive.db"}, environ={}))


async def _pending(app: Redrive) -> int:
    async with Redrive(settings=app.settings) as reader:
        return sum(counts.pending for counts in await reader.store.queues())


async def test_threads_submit_side_by_side(app: Redrive) -> None:
    with ThreadPoolExecutor(8) as threads:
        receipts = list(threads.map(lambda number: app.sync.submit("orders", number), range(200)))
    app.sync.close()
    assert len({receipt.id for receipt in receipts}) == 200
    assert await _pending(app) == 200


async def test_errors_reach_the_caller(app: Redrive) -> None:
    app.sync.submit("orders", 1, dedupe="k")
    with pytest.raises(Conflict):
        app.sync.submit("orders", 2, dedupe="k")
    assert len(app.sync.submit_many("orders", [Submission(3), Submission(4)])) == 2
    app.sync.close()
    assert await _pending(app) == 3


def test_a_forked_child_submits_too(app: Redrive) -> None:
    app.sync.submit("orders", "parent")
    app.sync.close()
    child = os.fork()
    if child == 0:
        app.sync.submit("orders", "child")
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert asyncio.run(_pending(app)) == 2
