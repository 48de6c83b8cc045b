"""A relay that cannot be reached: mails wait without losing attempts, and the pauses grow.

Shared by all mails of one relay: the first that fails opens it, each further failure doubles the pause up
to a minute, the first that gets through closes it. Mails come back spread over half a pause, not all at
once. One outage is one story: that it began, at growing intervals how many mails wait, that it
ended. Known weakness: remembers the id of each mail that waited, so that one is counted once.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

from redrive.telemetry.events import Event, RelayBack, RelayLost

_FIRST_S = 1.0
_LONGEST_S = 60.0
_SPREAD = 0.5
_SAID_AGAIN_S = 60.0
_SAID_SELDOM_S = 3_600.0


class Outage:
    """The state of one relay. `clock` is monotonic seconds, `jitter` draws from [0, 1)."""

    def __init__(
        self,
        relay: str,
        clock: Callable[[], float],
        jitter: Callable[[], float],
        emit: Callable[[Event], None],
    ) -> None:
        self._relay = relay
        self._emit = emit
        self._problem = ""
        self._clock = clock
        self._jitter = jitter
        self._pause_s = 0.0
        self._until_s = 0.0
        self._began_s = 0.0
        self._say_s = 0.0
        self._waiting: set[str] = set()

    def wait(self, mail_id: str) -> timedelta | None:
        """How long this mail is not to be tried; None when it may be."""
        if not self._pause_s or self._clock() >= self._until_s:
            return None
        return self._put_off(mail_id)

    def failed(self, mail_id: str, problem: str) -> timedelta:
        """The relay could not be reached; the pause before this mail is tried again."""
        now_s, self._problem = self._clock(), problem
        if not self._pause_s:
            self._pause_s, self._began_s, self._say_s = _FIRST_S, now_s, now_s + _SAID_AGAIN_S
            self._until_s = now_s + self._spread_s()
            self._emit(RelayLost(self._relay, problem, 0, 0.0))
        elif now_s >= self._until_s:
            self._pause_s = min(_LONGEST_S, self._pause_s * 2)
            self._until_s = now_s + self._spread_s()
        return self._put_off(mail_id)

    @property
    def story(self) -> dict[str, str | int] | None:
        """What is lost, why, and how many mails wait for it; None while the relay answers."""
        if not self._pause_s:
            return None
        return {"name": self._relay, "problem": self._problem, "waiting": len(self._waiting)}

    def worked(self) -> None:
        """The relay answered."""
        if self._pause_s:
            self._emit(RelayBack(self._relay, len(self._waiting), self._clock() - self._began_s))
            self._pause_s = self._until_s = 0.0
            self._waiting.clear()

    def _put_off(self, mail_id: str) -> timedelta:
        now_s = self._clock()
        self._waiting.add(mail_id)
        if now_s >= self._say_s:
            self._say_s = now_s + min(_SAID_SELDOM_S, max(_SAID_AGAIN_S, now_s - self._began_s))
            self._emit(RelayLost(self._relay, self._problem, len(self._waiting), now_s - self._began_s))
        later_s = _SPREAD * self._pause_s * self._jitter()
        return timedelta(seconds=max(0.0, self._until_s - now_s) + later_s)

    def _spread_s(self) -> float:
        """The pause of this process: many that lost the same relay do not return to it together."""
        return self._pause_s * (1 + _SPREAD * self._jitter())
