"""A new message wakes an idle worker, in the same process and in another; the poll is too rare to help."""

from __future__ import annotations

import asyncio
import statistics
import time
from pathlib import Path

from tests.faults.child import make_app
from tests.faults.handlers import serve
from tests.faults.ledger import HANDED, Ledger, Plan
from tests.faults.processes import Site, open_site

MESSAGES = 50
POLL_S = 5.0
MEDIAN_S = 0.050
IDLE_S = 0.03


async def test_a_message_of_another_process_wakes_an_idle_worker(tmp_path: Path, store_url: str) -> None:
    async with open_site(tmp_path, store_url) as site:
        await site.start_worker(poll_s=POLL_S)
        await _measure(site, "another process")


async def test_a_message_of_the_same_process_wakes_an_idle_worker(tmp_path: Path, store_url: str) -> None:
    async with make_app(tmp_path, store_url, **{"worker.poll_s": POLL_S}) as app:
        serve(app, Ledger(tmp_path / HANDED), concurrency=5, deadline_s=30)
        worker = asyncio.create_task(app.run(signals=False))
        with Site(tmp_path, store_url, app) as site:
            await site.wait_for("started")
            await _measure(site, "the same process")
            worker.cancel()
            await asyncio.gather(worker, return_exceptions=True)
            assert await site.violations() == []


async def _measure(site: Site, where: str) -> None:
    """From before the submit to the hand-over, one message at a time."""
    spans = []
    with site.starvation() as starvation:
        for _ in range(MESSAGES):
            await asyncio.sleep(IDLE_S)  # lets the worker find nothing and fall idle again
            began_s = time.monotonic()
            message_id = await site.submit(Plan())
            await site.wait_for("completed", message_id)
            spans.append((began_s, site.handed("begin", message_id)[0].at_s))
        taken = sorted(starvation.beside(*span) for span in spans)
    print(f"{where}: pick-up median {taken[len(taken) // 2] * 1000:.1f} ms, worst {taken[-1] * 1000:.1f} ms")
    assert statistics.median(taken) < MEDIAN_S
