"""The end of a process whose event loop will not run again, so that a supervisor starts it afresh."""

from __future__ import annotations

import logging
import os

_FAILED = 1


def end_when_stuck() -> None:
    """Called from the keeper's thread: a handler has blocked the event loop past every deadline."""
    logging.getLogger("redrive").critical("a handler has blocked the event loop for too long: ending")
    os._exit(_FAILED)
