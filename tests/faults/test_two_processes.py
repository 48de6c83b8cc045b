"""Several processes on one store under load: nobody hears of a lock, and no submit waits long."""

from __future__ import annotations

import time
from pathlib import Path

from tests.faults.handlers import ORDERS
from tests.faults.ledger import Plan
from tests.faults.processes import Child, Site, open_site
from tests.waiting import wait_until

SUBMITS = 1_500
WORST_S = 1.0
LOOK_EVERY = 40
MORE_THAN_ONE_HOLDS = 20

Span = tuple[float, float]


async def test_a_worker_two_submitters_and_a_reader_share_one_store(tmp_path: Path, store_url: str) -> None:
    async with open_site(tmp_path, store_url) as site:
        worker = await site.start_worker(lease_s=5, concurrency=20, batch=100)
        submitters = [
            site.start("submit", count=SUBMITS, tasks=10, seed=seed, mild=True, pace_s=0.001)
            for seed in (1, 2)
        ]
        with site.starvation() as starvation:
            looks = await _look_around(site, submitters)
            for submitter in submitters:
                assert await submitter.ended() == 0, submitter.errors
            submits = [(line.at_s - line.took_s, line.at_s) for line in site.accepted()]
            slow = [span for span in submits + looks if span[1] - span[0] >= WORST_S]
            too_slow = [took_s for span in slow if (took_s := starvation.beside(*span)) >= WORST_S]
        await site.wait_idle()
        assert await site.violations() == []
        print(f"{len(submits)} submits: worst {_worst(submits)}; slowest look {_worst(looks)}")
        assert len(submits) == len(submitters) * SUBMITS
        assert too_slow == []
        for child in (worker, *submitters):
            assert "locked" not in child.errors


async def test_two_workers_on_one_store_hand_each_message_over_once(tmp_path: Path, store_url: str) -> None:
    async with open_site(tmp_path, store_url) as site:
        gate = tmp_path / "gate"
        for _ in range(2):
            await site.start_worker(lease_s=5)
        for _ in range(MORE_THAN_ONE_HOLDS):
            await site.submit(Plan(gate=str(gate)))
        await site.wait_until(lambda: len(_working(site)) == 2, "both are at work")
        gate.touch()
        submitter = site.start("submit", count=400, tasks=8, seed=3)
        assert await submitter.ended() == 0, submitter.errors
        await site.wait_idle()
        assert await site.violations() == []
        assert site.evidence.repeated == 0


def _working(site: Site) -> set[int]:
    return {line.pid for line in site.handed("begin")}


def _worst(spans: list[Span]) -> str:
    return f"{1000 * max(ended_s - began_s for began_s, ended_s in spans):.0f} ms"


async def _look_around(site: Site, submitters: list[Child]) -> list[Span]:
    """What a person with the CLI does, until the submitters end; when each look began and ended."""
    looks, accepted = list[Span](), 0
    while any(submitter.running for submitter in submitters):
        await _wait_more(site, submitters, accepted)
        accepted = len(site.accepted())
        began_s = time.monotonic()
        store = site.app.store
        await store.queues()
        await store.lanes(ORDERS)
        await store.letters(None)
        await store.put_record("fault-test", "look", {}, expected=None)
        looks.append((began_s, time.monotonic()))
    return looks


async def _wait_more(site: Site, submitters: list[Child], accepted: int) -> None:
    """Until the load has gone on for a while, or is over."""

    def went_on() -> bool:
        over = not any(submitter.running for submitter in submitters)
        return over or len(site.accepted()) >= accepted + LOOK_EVERY

    await wait_until(went_on, 15, "the load goes on")
