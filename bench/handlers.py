"""Apps for `redrive worker bench.handlers:NAME`: one handler does nothing, one keeps a core busy."""

from __future__ import annotations

import time
from typing import Any

from bench.subject import QUEUE
from redrive import Redrive

BUSY_S = 0.000_2

idle_handler = Redrive()
busy_handler = Redrive()


@idle_handler.handler(QUEUE, concurrency=100)
async def rest(payload: dict[str, Any]) -> None:
    """Nothing."""


@busy_handler.handler(QUEUE, concurrency=100)
async def toil(payload: dict[str, Any]) -> None:
    """As much of the processor as a small piece of work takes, whoever else wants it."""
    ends_s = time.thread_time() + BUSY_S
    while time.thread_time() < ends_s:
        pass
