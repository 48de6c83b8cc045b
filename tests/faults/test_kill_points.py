"""A worker or submitter that dies exactly before or after a verb: the next one finishes its work."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from redrive.core.failure import Kind
from redrive.core.lifecycle import State
from tests.faults.ledger import Plan
from tests.faults.processes import Site, open_site
from tests.waiting import wait_until

LEASE_S = 1.0
PLANS = (
    Plan(),
    Plan(fails=1),
    Plan(permanent=1),
    Plan(work_s=0.02),
    Plan(fails=2),
    Plan(work_s=0.01, fails=9),
)


@pytest.mark.parametrize(
    "point",
    [
        "before:claim:2",
        "after:claim:1",
        "before:settle:1",
        "after:settle:1",
        "before:settle:3",
        "after:settle:3",
        "before:commit:2",
        "after:commit:2",
        "before:commit:4",
        "after:commit:4",
    ],
)
async def test_a_worker_that_dies_at_this_point_loses_nothing(
    tmp_path: Path, store_url: str, point: str
) -> None:
    async with open_site(tmp_path, store_url) as site:
        for plan in PLANS:
            await site.submit(plan)
        await _die(site, point)
        await site.start_worker(lease_s=LEASE_S)
        await site.wait_idle(timeout_s=15)
        assert await site.violations() == []


async def test_a_sweeper_that_dies_after_taking_over_delays_nothing(tmp_path: Path, store_url: str) -> None:
    async with open_site(tmp_path, store_url) as site:
        message_id = await site.submit(Plan())
        await _die(site, "after:claim:1")
        await _die(site, "after:reclaim:1")
        await site.start_worker(lease_s=LEASE_S)
        with site.within(LEASE_S + 1 + 3, "it is done"):
            await site.wait_state(message_id, State.DONE)
        account = await site.app.store.get(message_id)
        assert account is not None
        assert [failure.kind for failure in account.failures] == [Kind.LOST], (
            "only the first crash is its own"
        )
        assert await site.violations() == []


@pytest.mark.parametrize("point", ["before:append:3", "after:append:3", "before:commit:3", "after:commit:3"])
async def test_a_submitter_that_dies_at_this_point_loses_nothing_it_was_told(
    tmp_path: Path, store_url: str, point: str
) -> None:
    async with open_site(tmp_path, store_url) as site:
        submitter = site.start("submit", count=40, die=point, seed=1)
        assert await submitter.ended() == -signal.SIGKILL, submitter.errors
        again = site.start("submit", count=4, seed=2, repeat=True)
        assert await again.ended() == 0, again.errors
        await site.start_worker(lease_s=LEASE_S)
        await site.wait_idle()
        assert await site.violations() == []


async def _die(site: Site, point: str) -> None:
    worker = site.start("work", lease_s=LEASE_S, die=point)
    await wait_until(lambda: not worker.running, 15, f"the worker dies {point}")
    assert await worker.ended() == -signal.SIGKILL, worker.errors
    await site.note_kill()
