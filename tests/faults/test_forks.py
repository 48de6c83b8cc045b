"""Forked children that outlive their worker hold nothing of the store: others go on at once."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import pytest

from tests.faults.ledger import Plan
from tests.faults.processes import open_site


def _end(pids: Iterable[int]) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.parametrize("rounds", [1, pytest.param(10, marks=pytest.mark.long)])
async def test_a_killed_worker_whose_handler_has_a_process_pool_leaves_nothing_locked(
    tmp_path: Path, store_url: str, rounds: int
) -> None:
    async with open_site(tmp_path, store_url) as site:
        for turn in range(rounds):
            worker = await site.start_worker(lease_s=2)
            submitter = site.start("submit", count=200, tasks=4, seed=turn, mild=True)
            gate = tmp_path / f"gate-{turn}"
            forking = await site.submit(Plan(act="fork", gate=str(gate)))
            await site.wait_for("forked", forking, count=2)
            orphans = {int(line.note) for line in site.handed("forked", forking)}
            try:
                worker.kill()
                await site.note_kill()
                gate.touch()
                after = await site.start_worker(lease_s=2)
                beside = [await site.submit(Plan()) for _ in range(20)]
                for message_id in beside:
                    await site.wait_for("completed", message_id)
                assert all(map(_lives, orphans)), "the children outlive their worker, or nothing was tried"
                assert await submitter.ended() == 0, submitter.errors
                await site.wait_idle()
                after.signal(signal.SIGTERM)
                assert await after.ended() == 0, after.errors
            finally:
                _end(orphans | {int(line.note) for line in site.handed("forked")})
        assert await site.violations() == []
