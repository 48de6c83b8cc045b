"""Several processes on one store under load: nobody hears of a lock, and no submit waits long."""

from __future__ import annotations

import time
from pathlib import Path

from tests.faults.handlers import ORDERS
from tests.faults.processes import Child, Site, open_site
from tests.waiting import wait_until

SUBMITS = 1_500
WORST_S = 1.0
LOOK_EVERY = 40


async def test_a_worker_two_submitters_and_a_reader_share_one_store(tmp_path: Path, store_url: str) -> None:
    async with open_site(tmp_path, store_url) as site:
        worker = await site.start_worker(lease_s=5, concurrency=20, batch=100)
        submitters = [
            site.start("submit", count=SUBMITS, tasks=10, seed=seed, mild=True, pace_s=0.001)
            for seed in (1, 2)
        ]
        slowest_s = await _look_around(site, submitters)
        for submitter in submitters:
            assert await submitter.ended() == 0, submitter.errors
        await site.wait_idle()
        assert await site.violations() == []
        taken = sorted(line.took_s for line in site.accepted())
        print(
            f"{len(taken)} submits: worst {1000 * taken[-1]:.0f} ms; slowest look {1000 * slowest_s:.0f} ms"
        )
        assert len(taken) == len(submitters) * SUBMITS
        assert taken[-1] < WORST_S
        assert slowest_s < WORST_S
        for child in (worker, *submitters):
            assert "locked" not in child.errors


async def test_two_workers_on_one_store_hand_each_message_over_once(tmp_path: Path, store_url: str) -> None:
    async with open_site(tmp_path, store_url) as site:
        for _ in range(2):
            await site.start_worker(lease_s=2)
        submitter = site.start("submit", count=400, tasks=8, seed=3)
        assert await submitter.ended() == 0, submitter.errors
        await site.wait_idle()
        assert await site.violations() == []
        assert site.evidence.repeated == 0
        assert len({line.pid for line in site.handed("begin")}) == 2


async def _look_around(site: Site, submitters: list[Child]) -> float:
    """What a person with the CLI does, until the submitters end; the slowest look."""
    slowest_s, accepted = 0.0, 0
    while any(submitter.running for submitter in submitters):
        await _wait_more(site, submitters, accepted)
        accepted = len(site.accepted())
        began_s = time.monotonic()
        store = site.app.store
        await store.queues()
        await store.lanes(ORDERS)
        await store.letters(None)
        await store.put_record("fault-test", "look", {}, expected=None)
        slowest_s = max(slowest_s, time.monotonic() - began_s)
    return slowest_s


async def _wait_more(site: Site, submitters: list[Child], accepted: int) -> None:
    """Until the load has gone on for a while, or is over."""

    def went_on() -> bool:
        over = not any(submitter.running for submitter in submitters)
        return over or len(site.accepted()) >= accepted + LOOK_EVERY

    await wait_until(went_on, 15, "the load goes on")
