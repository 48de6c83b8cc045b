"""Stopping a worker at an instant when it does not hold the file, and until its lease is over."""

from __future__ import annotations

import asyncio
import signal
import time

from tests.faults.processes import Child, Site
from tests.waiting import wait_until

STALE_S = 2.5
"""The lease of a worker that is to be stopped: longer than a stall, and over before its calls time out."""

_TRIES = 20
_WRITE_S = 0.5


async def stop(site: Site, worker: Child) -> None:
    """Stop a worker.

    A process stopped inside a transaction stops every other writer of the file as well, which is SQLite's
    nature and not what these tests are about: it is let go and stopped again.
    """
    for _ in range(_TRIES):
        worker.signal(signal.SIGSTOP)
        if await _can_write(site):
            return
        worker.signal(signal.SIGCONT)
    raise AssertionError(f"the worker held the file each of {_TRIES} times it was stopped")


async def stop_past_lease(site: Site, worker: Child) -> None:
    """Stop a worker and wait until nothing it held is under a live lease; it counts as a kill."""
    await stop(site, worker)
    await site.note_kill()
    held = [message_id for message_id, _ in site.evidence.held[-1]]
    accounts = [await site.app.store.get(message_id) for message_id in held]
    ends_at = max((account.lease_until_at or 0 for account in accounts if account is not None), default=0)
    await wait_until(lambda: time.time() * 1000 > ends_at, 30, "the lease is over")


async def _can_write(site: Site) -> bool:
    try:
        async with asyncio.timeout(_WRITE_S):
            await site.app.store.put_record("fault-test", "probe", {}, expected=None)
    except TimeoutError:
        return False
    return True
