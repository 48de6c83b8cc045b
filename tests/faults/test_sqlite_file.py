"""What only a file can suffer: a process killed while it creates it, or stopped inside its write."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

import pytest

from tests.faults.child import make_app
from tests.faults.ledger import Plan
from tests.faults.processes import Site, open_site
from tests.waiting import wait_until

LEASE_S = 5.0


@pytest.mark.parametrize("delay_s", [0.0, 0.002, 0.005, 0.01, 0.03])
async def test_a_process_killed_while_it_creates_the_file_leaves_one_that_opens(
    tmp_path: Path, sqlite_store: str, delay_s: float
) -> None:
    app = make_app(tmp_path, sqlite_store)
    with Site(tmp_path, sqlite_store, app) as site:
        victim, survivor = (site.start("submit", count=4, seed=seed) for seed in (1, 2))
        await wait_until(
            Path(sqlite_store.removeprefix("sqlite:///")).exists, 15, "one of them creates the file"
        )
        await asyncio.sleep(delay_s)
        victim.kill()
        assert await survivor.ended() == 0, survivor.errors
        async with app:
            await site.start_worker(lease_s=LEASE_S)
            await site.wait_idle()
            assert await site.violations() == []
            assert len(site.accepted()) >= 4


async def test_a_process_stopped_inside_its_write_delays_others_and_fails_none(
    tmp_path: Path, sqlite_store: str
) -> None:
    async with open_site(tmp_path, sqlite_store) as site:
        stopped = site.start("submit", count=40, seed=1, die="before:commit:3:SIGSTOP")
        await wait_until(lambda: stopped.stopped, 15, "it stops")
        assert await site.app.store.queues(), "reading needs nobody's leave"
        waiting = asyncio.create_task(site.submit(Plan()))
        done, _ = await asyncio.wait({waiting}, timeout=1.0)
        assert not done
        stopped.signal(signal.SIGCONT)
        assert await waiting
        assert await stopped.ended() == 0, stopped.errors
        await site.start_worker(lease_s=LEASE_S)
        await site.wait_idle()
        assert await site.violations() == []
