"""Two workers and an API on one Redis, any of them killed at random under load: nothing is lost.

What is submitted goes through the API over HTTP with an idempotency key a message, and is asked again until
it is answered. The seed of a run is printed and can be given again as FAULTS_SEED.
"""

from __future__ import annotations

import asyncio
import os
import random
from pathlib import Path

import pytest

from redrive.core.grants import QueuePatterns
from redrive.office.access import Access, Limits, Role
from redrive.office.audit import Actor
from tests.faults.processes import Child, Site, open_site
from tests.faults.recovery import print_summary, redrive_all, wait_recovery
from tests.servers import free_port
from tests.waiting import wait_until

LEASE_S = 2.0
TENANTS = ("acme", "globex")
SUBMITS_A_ROUND = 80


async def test_nothing_is_lost_when_two_workers_and_an_api_are_killed_under_load(
    tmp_path: Path, redis_store: str
) -> None:
    await _run_rounds(tmp_path, redis_store, rounds=6)


@pytest.mark.long
@pytest.mark.timeout(1200)
async def test_nothing_is_lost_in_a_hundred_kills_of_two_workers_and_an_api(
    tmp_path: Path, redis_store: str
) -> None:
    await _run_rounds(tmp_path, redis_store, rounds=100)


class Crew:
    """Two workers and an API, each replaced when it was killed."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._port = free_port()
        self._workers: list[Child] = []
        self._api: Child | None = None

    async def start(self, rounds: int, seed: int) -> list[Child]:
        """Start them, and a submitter a tenant."""
        self._workers = [await self._start_worker() for _ in range(2)]
        self._api = self._start_api()
        return [await self._start_submitter(tenant, rounds, seed) for tenant in TENANTS]

    async def kill_one(self, chance: random.Random) -> None:
        """Kill a worker or the API, and start another in its place."""
        if chance.random() < 0.25:
            assert self._api is not None
            self._api.kill()
            self._api = self._start_api()
            return
        victim = self._workers.pop(chance.randrange(2))
        victim.kill()
        await self._site.note_kill(self._workers)
        self._workers.append(await self._start_worker())

    async def _start_worker(self) -> Child:
        return await self._site.start_worker(lease_s=LEASE_S)

    def _start_api(self) -> Child:
        return self._site.start("answer", port=self._port)

    async def _start_submitter(self, tenant: str, rounds: int, seed: int) -> Child:
        access = Access(self._site.app.store, Actor("test", "test"))
        _, key = await access.create(Role.SUBMIT, tenant, limits=Limits(queues=QueuePatterns(("*",))))
        count = rounds * SUBMITS_A_ROUND // len(TENANTS)
        options = {"count": count, "pace_s": 0.01, "dedupe": 1.0, "seed": seed + len(tenant)}
        return self._site.start("submit", port=self._port, key=key, **options)


async def _run_rounds(folder: Path, store_url: str, rounds: int) -> None:
    seed = int(os.environ.get("FAULTS_SEED") or random.SystemRandom().randrange(2**32))
    print(f"FAULTS_SEED={seed}")
    chance = random.Random(seed)  # noqa: S311 - repeats a run
    async with open_site(folder, store_url) as site:
        crew = Crew(site)
        submitters = await crew.start(rounds, seed)
        for _ in range(rounds):
            await _wait_work(site, submitters, chance.randint(1, 40))
            await redrive_all(site)
            await asyncio.sleep(chance.uniform(0, 0.2))
            await crew.kill_one(chance)
        await wait_recovery(site, LEASE_S)
        for submitter in submitters:
            assert await submitter.ended(60) == 0, submitter.errors
        await site.wait_idle()
        assert await site.violations() == []
        print_summary(site, rounds)


async def _wait_work(site: Site, submitters: list[Child], count: int) -> None:
    wanted = len(site.handed("begin")) + count

    def worked() -> bool:
        over = not any(submitter.running for submitter in submitters)
        return over or len(site.handed("begin")) >= wanted

    await wait_until(worked, 20, f"{count} more hand-overs")
