"""What tells the outside that this process works: whether its worker reaches the store, and an end when
a handler has blocked the event loop for good (P11)."""

from __future__ import annotations

import logging
import os

from redrive.cli.problems import Exit
from redrive.telemetry.events import Event, StoreBack, StoreTrouble

_FAILURES = 3


class Readiness:
    """Whether the loops of this process reach the store, from what telemetry tells."""

    def __init__(self) -> None:
        self._failing: dict[str, int] = {}

    def see(self, event: Event) -> None:
        """The telemetry sink."""
        match event:
            case StoreTrouble():
                self._failing[event.doing] = event.failures
            case StoreBack():
                self._failing.pop(event.doing, None)

    def __call__(self) -> bool:
        """Whether no loop has failed three times in a row."""
        return all(failures < _FAILURES for failures in self._failing.values())


def end_when_stuck() -> None:
    """The event loop is blocked for good: end, so that a supervisor starts us afresh."""
    logging.getLogger("redrive").critical("a handler has blocked the event loop for too long: ending")
    os._exit(Exit.FAILED)
