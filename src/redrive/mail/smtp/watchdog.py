"""One timer a connection, moved without touching the event loop's heap at every reply.

The deadline is a number; the loop's timer is only armed again when the deadline comes earlier than it,
or when it fires and finds the deadline moved. So a busy connection costs one timer now and then.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class Watchdog:
    """Calls `expired(limit_s)` when nobody has called `watch` again in time."""

    __slots__ = ("_deadline", "_expired", "_limit_s", "_loop", "_timer")

    def __init__(self, loop: asyncio.AbstractEventLoop, expired: Callable[[float], None]) -> None:
        self._loop = loop
        self._expired = expired
        self._deadline = 0.0
        self._limit_s = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def watch(self, limit_s: float) -> None:
        """From now on, `limit_s` seconds are left."""
        self._limit_s = limit_s
        self._deadline = self._loop.time() + limit_s
        if self._timer is not None:
            if self._timer.when() <= self._deadline:
                return
            self._timer.cancel()
        self._timer = self._loop.call_at(self._deadline, self._look)

    def stop(self) -> None:
        """No deadline until the next `watch`."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        self._timer = None
        if self._loop.time() < self._deadline:
            self._timer = self._loop.call_at(self._deadline, self._look)
        else:
            self._expired(self._limit_s)
