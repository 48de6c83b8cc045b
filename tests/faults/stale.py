"""Making a worker stale: SIGSTOP until its lease is over, at an instant when it does not hold the file."""

from __future__ import annotations

import asyncio
import signal
import time

from tests.faults.processes import Child, Site
from tests.faults.waiting import wait_until

_TRIES = 20
_WRITE_S = 0.5


async def stop_past_lease(site: Site, worker: Child) -> None:
    """Stop a worker and wait until nothing it held is under a live lease; it counts as a kill.

    A process stopped inside a transaction stops every other writer of the file as well, which is SQLite's
    nature and not what these tests are about: it is let go and stopped again.
    """
    for _ in range(_TRIES):
        worker.signal(signal.SIGSTOP)
        if await _can_write(site):
            break
        worker.signal(signal.SIGCONT)
    else:
        raise AssertionError(f"the worker held the file each of {_TRIES} times it was stopped")
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
