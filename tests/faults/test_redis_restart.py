"""Kill -9 of Redis itself under load, started again on its port with its append-only file.

With `always` (class A) nothing that was accepted or settled is forgotten: every invariant holds as strictly
as on SQLite. With `everysec` (class B) the server hands its writes to the kernel before it answers, except
while an fsync is under way: what was told before it last said that nothing waits is as strict, the rest is
counted and printed, and still comes to one right end. Workers and submitters find the server again by
themselves. The death of a machine, with what the kernel had not yet written, is not tried.
"""

from __future__ import annotations

import os
import random
import signal
import time
from pathlib import Path

import pytest

from redrive.core.condition import Durability
from redrive.core.errors import StoreUnavailable
from tests.faults.processes import Child, Site, open_site
from tests.faults.recovery import RESUMED_S, print_summary, redrive_all, wait_recovery
from tests.faults.redis_server import FaultyRedis, open_redis
from tests.waiting import wait_until

LEASE_S = 2.0
SUBMITS_A_ROUND = 120
CLASSES = {"always": Durability.A, "everysec": Durability.B}


@pytest.mark.parametrize("fsync", CLASSES)
async def test_a_killed_server_forgets_nothing_that_its_class_promises(tmp_path: Path, fsync: str) -> None:
    await _run_rounds(tmp_path, fsync, rounds=3)


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("fsync", CLASSES)
async def test_a_server_killed_thirty_times_forgets_nothing_that_its_class_promises(
    tmp_path: Path, fsync: str
) -> None:
    await _run_rounds(tmp_path, fsync, rounds=30)


async def test_a_server_that_comes_back_without_its_last_writes_is_caught(tmp_path: Path) -> None:
    """The checks are good: what was accepted, and is in no file any more, is told as lost."""
    async with open_redis(tmp_path, appendfsync="always") as server, open_site(tmp_path, server.url) as site:
        submitter = site.start("submit", seed=1, count=40, mild=True)
        assert await submitter.ended() == 0, submitter.errors
        server.kill()
        server.lose_end(5_000)
        await server.start()
        await site.wait_until(lambda: _answers(site), "the store answers")
        violations = await site.violations()
        assert any(violation.startswith("lost") for violation in violations), violations


async def _run_rounds(folder: Path, fsync: str, rounds: int) -> None:
    seed = int(os.environ.get("FAULTS_SEED") or random.SystemRandom().randrange(2**32))
    print(f"FAULTS_SEED={seed}")
    chance = random.Random(seed)  # noqa: S311 - repeats a run
    async with open_redis(folder, appendfsync=fsync) as server, open_site(folder, server.url) as site:
        assert (await site.app.store.describe()).durability is CLASSES[fsync]
        site.evidence.outages = True
        workers = [await site.start_worker(lease_s=LEASE_S) for _ in range(2)]
        for number in range(rounds):
            submitter = site.start("submit", seed=seed + number, count=SUBMITS_A_ROUND, pace_s=0.01)
            await _wait_begun(site, submitter, chance.randint(20, 80))
            await redrive_all(site)
            await _restart(site, server, workers, fsync)
            with site.within(RESUMED_S, "work goes on"):
                await _wait_begun(site, submitter, 1)
            await wait_recovery(site, LEASE_S)
            assert await submitter.ended(40) == 0, submitter.errors
        await site.wait_idle()
        assert await site.violations() == []
        assert all(worker.running for worker in workers)
        print_summary(site, rounds)
        forgotten = site.evidence.accepted - site.evidence.accounts.keys()
        print(f"{fsync}: {len(forgotten)} forgotten of {len(site.evidence.fresh)} touched in the window")


async def _restart(site: Site, server: FaultyRedis, workers: list[Child], fsync: str) -> None:
    """Kill the server and start it again; the workers stand still only while what they held is looked at."""
    written_s = await _wait_written(server)
    server.kill()
    for worker in workers:
        worker.signal(signal.SIGSTOP)
    await server.start()
    await site.wait_until(lambda: _answers(site), "the store answers")
    await site.note_kill()
    if fsync == "everysec":
        site.evidence.fresh |= site.touched_since(written_s)
    for worker in workers:
        worker.signal(signal.SIGCONT)


async def _wait_written(server: FaultyRedis) -> float:
    """An instant before which everything that the server told is in the kernel's hands."""
    asked_s = time.monotonic()

    async def written() -> bool:
        nonlocal asked_s
        asked_s = time.monotonic()
        return await server.has_written()

    await wait_until(written, 10, "the server has written what it told")
    return asked_s


async def _answers(site: Site) -> bool:
    try:
        await site.app.store.queues()
    except StoreUnavailable:
        return False
    return True


async def _wait_begun(site: Site, submitter: Child, count: int) -> None:
    """Some more hand-overs, or none is left to come."""
    wanted = len(site.handed("begin")) + count

    def begun() -> bool:
        return not submitter.running or len(site.handed("begin")) >= wanted

    await wait_until(begun, 20, f"{count} more hand-overs")
