"""Handing the turn from the thread that waited for it to the event loop, which may be blocked.

The thread offers the turn for a moment. A loop that comes in time has it; otherwise the thread gives it up,
so a blocked loop delays other processes by one such moment and no more. The moment grows with every offer
that was missed, so that a slow loop gets its turn in the end.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

_STANDS_S = 0.05
_STANDS_AT_MOST_S = 0.4


class Offer:
    """A turn that is held, and goes to whoever comes first: the loop, or the end of patience."""

    def __init__(self, give_up: Callable[[], None]) -> None:
        self._give_up = give_up
        self._lock = threading.Lock()
        self._accepted = threading.Event()
        self._over = False

    def stand(self, missed: int) -> None:
        """In the thread: wait until the loop accepts, or give the turn up; it came late `missed` times."""
        self._accepted.wait(min(_STANDS_S * 2 ** min(missed, 10), _STANDS_AT_MOST_S))
        with self._lock:
            # Given up under the lock: a loop that comes too late finds the turn free, not half released.
            if not self._accepted.is_set():
                self._over = True
                self._give_up()

    def accept(self) -> bool:
        """On the loop: whether the turn is ours."""
        with self._lock:
            if self._over:
                return False
            self._accepted.set()
            return True
