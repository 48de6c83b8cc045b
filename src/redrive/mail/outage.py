"""A relay that cannot be reached: mails wait without losing attempts, and the pauses grow.

Shared by all mails of one relay: the first that fails opens it, each further failure doubles the pause up
to a minute, the first that gets through closes it. Told once each way.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import timedelta

logger = logging.getLogger("redrive")

_FIRST_S = 1.0
_LONGEST_S = 60.0


class Outage:
    """The state of one relay. `clock` is monotonic seconds."""

    def __init__(self, relay: str, clock: Callable[[], float]) -> None:
        self._relay = relay
        self._clock = clock
        self._pause_s = 0.0
        self._until_s = 0.0

    @property
    def closed_for(self) -> timedelta | None:
        """How long not to try; None when it may be tried."""
        left_s = self._until_s - self._clock()
        return timedelta(seconds=left_s) if self._pause_s and left_s > 0 else None

    def failed(self, problem: str) -> timedelta:
        """The relay could not be reached; the pause before it is tried again."""
        now_s = self._clock()
        if not self._pause_s:
            self._pause_s = _FIRST_S
            fields = {"relay": self._relay, "error": problem, "alert": True}
            logger.error("Mail relay cannot be reached, mails wait", extra={"fields": fields})
        elif now_s >= self._until_s:
            self._pause_s = min(_LONGEST_S, self._pause_s * 2)
        self._until_s = max(self._until_s, now_s + self._pause_s)
        return timedelta(seconds=self._until_s - now_s)

    def worked(self) -> None:
        """The relay answered."""
        if self._pause_s:
            self._pause_s = self._until_s = 0.0
            logger.info("Mail relay answers again", extra={"fields": {"relay": self._relay}})
