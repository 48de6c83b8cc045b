"""Waiting for something that another process does: bounded polling, in this one place."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable

_PAUSE_S = 0.01

Condition = Callable[[], bool | Awaitable[bool]]


async def wait_until(condition: Condition, timeout_s: float, what: str) -> float:
    """Seconds it took until the condition held; AssertionError naming `what` when it never did."""
    began_s = time.monotonic()
    while not await _holds(condition):
        waited_s = time.monotonic() - began_s
        assert waited_s < timeout_s, f"waited {waited_s:.1f} s in vain until {what}"
        await asyncio.sleep(_PAUSE_S)
    return time.monotonic() - began_s


def wait_in_thread(condition: Callable[[], bool], timeout_s: float) -> None:
    """The same for a `def` handler, which has no event loop of its own."""
    ends_s = time.monotonic() + timeout_s
    while not condition() and time.monotonic() < ends_s:
        time.sleep(_PAUSE_S)


async def _holds(condition: Condition) -> bool:
    result = condition()
    return await result if inspect.isawaitable(result) else bool(result)
