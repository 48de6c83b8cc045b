"""The handlers of the runbook's stores: what its page calls mended works, orders without a recipient do not.

An order that says `slow` takes until the file `released` is there, one that says `seconds` so long.
"""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

from redrive import Permanent, Redrive

PATIENCE_S = 60.0
PAUSE_S = 0.02

app = Redrive()


@app.handler("email:send", concurrency=10)
async def send(order: dict[str, Any]) -> None:
    if "to" not in order:
        raise Permanent("the order has no recipient", code="422")
    await asyncio.sleep(order.get("seconds", 0))
    if order.get("slow"):
        await asyncio.to_thread(_wait_until_released)


def _wait_until_released() -> None:
    ends_s = time.monotonic() + PATIENCE_S
    while not Path("released").exists() and time.monotonic() < ends_s:
        time.sleep(PAUSE_S)
