"""What every peer's handler shares: the body, the address, and the marks of its first and last message.

The rate then counts from the first message handled, so no peer pays for its start. Standard library only.
"""

from __future__ import annotations

import json
import os
import threading
import time
from pathlib import Path

from bench.load import PAYLOAD

URL = os.environ.get("BENCH_SERVER", "redis://127.0.0.1:6379/0")
COUNT = int(os.environ.get("BENCH_COUNT", "0"))
PORT = int(URL.rpartition(":")[2].partition("/")[0])

__all__ = ["COUNT", "PAYLOAD", "PORT", "URL", "handled"]

_lock = threading.Lock()
_seen = [0]
_first_s = [0.0]


def handled() -> None:
    """A handler's only line: counts, and writes the marks when the last message is there."""
    with _lock:
        _seen[0] += 1
        if _seen[0] == 1:
            _first_s[0] = time.monotonic()
        if _seen[0] == COUNT:
            _write(_first_s[0], time.monotonic())


def _write(first_s: float, last_s: float) -> None:
    place = Path(os.environ["BENCH_MARKS"])
    unfinished = place.with_suffix(".unfinished")
    unfinished.write_text(json.dumps([first_s, last_s]))
    unfinished.rename(place)
