"""A wall clock that is set under running processes: no live lease is stolen, and due work goes on."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest

from tests.faults.child import set_clock
from tests.faults.ledger import Plan
from tests.faults.processes import open_site

STEPS_S = [60.0, 3_600.0, -60.0, -3_600.0]
LEASE_S = 2.0


@pytest.mark.parametrize("step_s", STEPS_S)
async def test_a_clock_that_is_set_makes_nothing_run_twice_and_stops_nothing(
    tmp_path: Path, sqlite_store: str, step_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One worker holds leases, the machine's clock is set, another worker starts and serves what comes."""
    monkeypatch.setattr(time, "time", time.time)
    monkeypatch.setattr(time, "time_ns", time.time_ns)
    async with open_site(tmp_path, sqlite_store) as site:
        gate = tmp_path / "gate"
        first = await site.start_worker(lease_s=LEASE_S, concurrency=40, wall_s=step_s)
        held = [await site.submit(Plan(gate=str(gate))) for _ in range(10)]
        due = [await site.submit(Plan(fails=1)) for _ in range(5)]
        await site.wait_for("begin", count=len(held))
        first.signal(signal.SIGUSR1)
        set_clock(step_s)
        await site.start_worker(lease_s=LEASE_S, concurrency=10, wall_s=step_s, wall_set=True)
        due += [await site.submit(Plan(fails=number % 2)) for number in range(30)]
        for message_id in due:
            await site.wait_for("completed", message_id)
        gate.touch()
        await site.wait_idle()
        assert await site.violations() == []
        assert site.evidence.repeated == 0
