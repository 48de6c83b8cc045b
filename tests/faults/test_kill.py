"""Kill -9 of real workers and submitters under load, at random instants; nothing is lost.

The seed of a run is printed and can be given again as FAULTS_SEED.
"""

from __future__ import annotations

import asyncio
import os
import random
from itertools import pairwise
from pathlib import Path

import pytest

from tests.faults.handlers import ORDERS, PLAIN
from tests.faults.processes import Child, Site, open_site
from tests.faults.recovery import RESUMED_S, print_summary, redrive_all, wait_recovery
from tests.waiting import wait_until

LEASE_S = 2.0
BATCH = 20
SUBMITS_A_ROUND = 80


async def test_nothing_is_lost_when_workers_and_submitters_are_killed_under_load(
    tmp_path: Path, store_url: str
) -> None:
    await _run_rounds(tmp_path, store_url, rounds=8)


@pytest.mark.long
@pytest.mark.timeout(900)
async def test_nothing_is_lost_in_fifty_rounds_of_kills(tmp_path: Path, store_url: str) -> None:
    await _run_rounds(tmp_path, store_url, rounds=50)


async def _run_rounds(folder: Path, store_url: str, rounds: int) -> None:
    seed = int(os.environ.get("FAULTS_SEED") or random.SystemRandom().randrange(2**32))
    print(f"FAULTS_SEED={seed}")
    chance = random.Random(seed)  # noqa: S311 - repeats a run
    async with open_site(folder, store_url) as site:
        for number in range(rounds):
            await _run_round(site, chance, seed + number)
        submitter = site.start("submit", seed=seed + rounds, count=0, repeat=True)
        await _check_recovery(site)
        assert await submitter.ended() == 0, submitter.errors
        await site.wait_idle()
        assert await site.violations() == []
        _check_held(site)
        print_summary(site, rounds)


async def _run_round(site: Site, chance: random.Random, seed: int) -> None:
    """A worker under load is killed at some instant, sometimes its submitter too."""
    submitter = site.start("submit", seed=seed, count=SUBMITS_A_ROUND, pace_s=0.01, repeat=True)
    worker = site.start("work", lease_s=LEASE_S, batch=BATCH)
    already = len(site.handed("begin"))
    wanted = already + chance.randint(1, 40)
    await wait_until(lambda: len(site.handed("begin")) >= wanted, 15, f"{wanted} hand-overs")
    await redrive_all(site)
    await asyncio.sleep(chance.uniform(0, 0.3))
    worker.kill()
    await site.note_kill()
    if chance.random() < 0.5:
        submitter.kill()
    else:
        await _finish(submitter)


async def _finish(submitter: Child) -> None:
    assert await submitter.ended() == 0, submitter.errors


async def _check_recovery(site: Site) -> None:
    """After the last kill work goes on, and what was held returns, with nobody's help."""
    already = len(site.handed("begin"))
    await site.start_worker(lease_s=LEASE_S)
    await wait_recovery(site, LEASE_S)
    with site.within(RESUMED_S, "work goes on"):
        await site.wait_until(lambda: len(site.handed("begin")) > already, "work goes on")


def _check_held(site: Site) -> None:
    """A kill costs no more than a worker may hold of a queue: two batches at hand, two on their way back."""
    for before, held in pairwise([frozenset(), *site.evidence.held]):
        assert len(held - before) <= len((ORDERS, PLAIN)) * 4 * BATCH
