"""How fast one worker process works off what waits: no-op handlers, everything on.

Counted from the start of a worker to the durable settlement of the last message, after another worker of the
same process has brought in what only workers import.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any

from bench.lanes import schedule_retries
from bench.load import Conditions, Figures
from bench.subject import QUEUE, Tally, make_app, preload, warm_up, working
from redrive import Redrive
from redrive.machine import loops

_STORE = "process"
_MESSAGES_A_SECOND = 10_000
_THREADED_SHARE = 0.5


def measure(conditions: Conditions) -> Figures:
    """Processed a second by an `async def` handler."""
    return {"process": asyncio.run(_measure(conditions, threaded=False))}


def measure_on_uvloop(conditions: Conditions) -> Figures:
    """The same on uvloop, as `redrive worker` runs where it is installed."""
    return {"process on uvloop": loops.run(_measure(conditions, threaded=False), uvloop=True)}


def measure_threaded(conditions: Conditions) -> Figures:
    """Processed a second by a `def` handler, which runs in threads."""
    return {"process in threads": asyncio.run(_measure(conditions, threaded=True))}


def measure_beside_retries(conditions: Conditions) -> Figures:
    """Processed a second by an `async def` handler beside 100,000 retries that are due in an hour."""
    asyncio.run(schedule_retries(conditions.store(_STORE)))
    return {"process beside retries": asyncio.run(_measure(conditions, threaded=False))}


async def _measure(conditions: Conditions, *, threaded: bool) -> float:
    store = conditions.store(_STORE)
    count = round(_MESSAGES_A_SECOND * conditions.seconds * (_THREADED_SHARE if threaded else 1))
    await preload(store, count)
    return await _process(store, count, threaded=threaded)


async def _process(store: str, count: int, *, threaded: bool) -> float:
    await warm_up(store)
    app = make_app(store)
    _register(app, threaded=threaded)
    tally = Tally(count)
    app.telemetry.add(tally)
    async with app:
        began_s = time.perf_counter()
        async with working(app):
            await tally.reached()
    return count / (tally.ended_s - began_s)


def _register(app: Redrive, *, threaded: bool) -> None:
    def handle_in_thread(payload: dict[str, Any]) -> None:
        return None

    async def handle(payload: dict[str, Any]) -> None:
        return None

    app.handler(QUEUE)(handle_in_thread if threaded else handle)
