"""Queues of other software that the settings name and the broker does not have, or no more."""

from __future__ import annotations

import logging
import time

LOOK_S = 5.0
"""How often such a queue is looked for."""

_log = logging.getLogger("redrive")


class AbsentQueues:
    """Each is told once while it is missing, and looked for now and then: no other queue waits for it.

    `names` has those that are missing, with the instant until which nobody looks.
    """

    def __init__(self) -> None:
        self.names: dict[str, float] = {}

    def rests(self, queue: str) -> bool:
        """Whether it was missing a moment ago."""
        return time.monotonic() < self.names.get(queue, 0.0)

    def miss(self, queue: str) -> None:
        """It is not there."""
        if queue not in self.names:
            _log.warning(
                "broker.collect names %s, and the broker has no such queue: %s",
                queue,
                "fix the name, or its letters are collected once it is there",
            )
        self.names[queue] = time.monotonic() + LOOK_S

    def find(self, queue: str) -> None:
        """It is there."""
        self.names.pop(queue, None)
