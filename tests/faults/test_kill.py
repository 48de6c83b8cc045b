"""Kill -9 of real workers and submitters under load, at random instants; nothing is lost (I1-I8).

The seed of a run is printed and can be given again as FAULTS_SEED.
"""

from __future__ import annotations

import asyncio
import os
import random
from itertools import pairwise
from pathlib import Path

import pytest

from redrive.core.lifecycle import State
from redrive.core.verdict import Reason
from tests.conformance.makers import keys
from tests.faults.handlers import ORDERS, PLAIN
from tests.faults.processes import Child, Site, open_site
from tests.faults.waiting import wait_until

LEASE_S = 1.0
BATCH = 20
RETURNED_S = LEASE_S + 1.0
RESUMED_S = 5.0
SLACK_S = 1.0
SUBMITS_A_ROUND = 80


async def test_nothing_is_lost_when_workers_and_submitters_are_killed_under_load(tmp_path: Path) -> None:
    await _run_rounds(tmp_path, rounds=8)


@pytest.mark.long
@pytest.mark.timeout(900)
async def test_nothing_is_lost_in_fifty_rounds_of_kills(tmp_path: Path) -> None:
    await _run_rounds(tmp_path, rounds=50)


async def _run_rounds(folder: Path, rounds: int) -> None:
    seed = int(os.environ.get("FAULTS_SEED") or random.SystemRandom().randrange(2**32))
    print(f"FAULTS_SEED={seed}")
    chance = random.Random(seed)  # noqa: S311 - repeats a run
    async with open_site(folder) as site:
        for number in range(rounds):
            await _run_round(site, chance, seed + number)
        submitter = site.start("submit", seed=seed + rounds, count=0, repeat=True)
        await _check_recovery(site)
        assert await submitter.ended() == 0, submitter.errors
        await site.wait_idle()
        assert await site.violations() == []
        _check_held(site)
        _print_summary(site, rounds)


async def _run_round(site: Site, chance: random.Random, seed: int) -> None:
    """A worker under load is killed at some instant, sometimes its submitter too."""
    submitter = site.start("submit", seed=seed, count=SUBMITS_A_ROUND, pace_s=0.01, repeat=True)
    worker = site.start("work", lease_s=LEASE_S, batch=BATCH)
    already = len(site.handed("begin"))
    wanted = already + chance.randint(1, 40)
    await wait_until(lambda: len(site.handed("begin")) >= wanted, 15, f"{wanted} hand-overs")
    await _redrive_all(site)
    await asyncio.sleep(chance.uniform(0, 0.3))
    worker.kill()
    await site.note_kill()
    if chance.random() < 0.5:
        submitter.kill()
    else:
        await _finish(submitter)


async def _finish(submitter: Child) -> None:
    assert await submitter.ended() == 0, submitter.errors


async def _redrive_all(site: Site) -> None:
    """Re-drive is under fire too; each letter goes back once, as its second generation."""
    for queue in (ORDERS, PLAIN):
        page = await site.app.store.letters(queue)
        ids = [letter.message.id for letter in page.letters if letter.progress.generation == 0]
        if ids:
            await site.app.store.redrive(queue, keys(ids), actor="test")


async def _check_recovery(site: Site) -> None:
    """After the last kill work goes on, and what was held returns, with nobody's help (I8)."""
    already = len(site.handed("begin"))
    await site.start_worker(lease_s=LEASE_S)
    held = {message_id for message_id, _ in site.evidence.held[-1]}

    async def returned() -> bool:
        accounts = [await site.app.store.get(message_id) for message_id in held]
        return all(
            account is not None and (account.state is not State.CLAIMED or account.progress.crashes > 0)
            for account in accounts
        )

    await wait_until(returned, RETURNED_S + SLACK_S, f"{len(held)} leases returned")
    await wait_until(lambda: len(site.handed("begin")) > already, RESUMED_S, "work goes on")


def _check_held(site: Site) -> None:
    """A kill costs no more than what the claims of one worker may hold: a batch a queue, and one settling."""
    for before, held in pairwise([frozenset(), *site.evidence.held]):
        assert len(held - before) <= len((ORDERS, PLAIN)) * 2 * BATCH


def _print_summary(site: Site, rounds: int) -> None:
    evidence = site.evidence
    lost = sum(letter.reason is Reason.WORKER_LOST for letter in evidence.letters)
    print(
        f"{rounds} rounds: {len(evidence.accepted)} accepted, {sum(map(evidence.handovers, evidence.lines))} "
        f"hand-overs, {evidence.repeated} repeated of {sum(map(len, evidence.held))} in flight (at most "
        f"{max(map(len, evidence.held))} at once), {len(evidence.letters)} dead letters, {lost} worker lost"
    )
