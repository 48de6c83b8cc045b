"""An end when a handler has blocked the event loop for good, so that a supervisor starts us afresh (P11)."""

from __future__ import annotations

import logging
import os

from redrive.cli.problems import Exit


def end_when_stuck() -> None:
    """Called from the keeper's thread: the event loop will not run again."""
    logging.getLogger("redrive").critical("a handler has blocked the event loop for too long: ending")
    os._exit(Exit.FAILED)
