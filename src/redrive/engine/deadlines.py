"""The deadline that a queue's attempts share: one timer for all of them.

Attempts of one queue have the same deadline, so the one that began first ends first, and the timer needs
to watch only that one. An attempt costs a look-up in place of a timer of its own.
"""

from __future__ import annotations

import asyncio


class Deadlines:
    """Cancels attempts that run for longer than `deadline_s`. Used from one event loop."""

    def __init__(self, deadline_s: float) -> None:
        self._deadline_s = deadline_s
        self._ends_s: dict[asyncio.Task[object], float] = {}
        self._timer: asyncio.TimerHandle | None = None

    def start(self, task: asyncio.Task[object]) -> None:
        """An attempt begins."""
        loop = asyncio.get_running_loop()
        ends_s = self._ends_s[task] = loop.time() + self._deadline_s
        if self._timer is None:
            self._timer = loop.call_at(ends_s, self._pass)

    def end(self, task: asyncio.Task[object]) -> bool:
        """An attempt is over; whether it was cancelled because its deadline had passed."""
        if self._ends_s.pop(task, None) is not None:
            return False
        task.uncancel()
        return True

    def close(self) -> None:
        """Watch no more."""
        if self._timer is not None:
            self._timer.cancel()

    def _pass(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer = None
        for task, ends_s in list(self._ends_s.items()):
            if ends_s > loop.time():
                self._timer = loop.call_at(ends_s, self._pass)
                return
            del self._ends_s[task]
            task.cancel()
