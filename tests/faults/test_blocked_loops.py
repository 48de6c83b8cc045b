"""A handler that blocks its event loop holds up its own worker and nobody else."""

from __future__ import annotations

from pathlib import Path

from tests.faults.ledger import Plan
from tests.faults.processes import open_site

BLOCKED_S = 2.5
BLOCKS = 4
SUBMITS = 4_000
WORST_S = 1.5


async def test_submits_elsewhere_do_not_wait_for_a_blocked_loop(tmp_path: Path, sqlite_store: str) -> None:
    """The worker settles and claims among the submits, and blocks at any point of that, several times."""
    async with open_site(tmp_path, sqlite_store) as site:
        await site.start_worker(lease_s=2.0, concurrency=20, batch=100)
        submitters = [
            site.start("submit", count=SUBMITS, tasks=10, seed=seed, mild=True, pace_s=0.005)
            for seed in (1, 2)
        ]
        await site.wait_for("completed", count=50)
        with site.starvation() as starvation:
            blocking = [await site.submit(Plan(act="block", work_s=BLOCKED_S)) for _ in range(BLOCKS)]
            for message_id in blocking:
                await site.wait_for("completed", message_id)
            for submitter in submitters:
                assert await submitter.ended(60) == 0, submitter.errors
            begun_s = site.handed("begin", blocking[0])[0].at_s
            beside = [line for line in site.accepted() if line.at_s > begun_s]
            slow = [(line.at_s - line.took_s, line.at_s) for line in beside if line.took_s >= WORST_S]
            too_slow = [took_s for span in slow if (took_s := starvation.beside(*span)) >= WORST_S]
        await site.wait_idle()
        assert await site.violations() == []
        assert site.evidence.repeated == 0
        worst_s = max(line.took_s for line in beside)
        print(f"{len(beside)} submits beside a blocked loop: worst {1000 * worst_s:.0f} ms")
        assert too_slow == []
