"""Instants and durations as people read them."""

from __future__ import annotations

import time
from datetime import UTC, datetime

_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"))


def duration(milliseconds: int) -> str:
    """In the largest unit that fits: 0.4 s, 12 s, 3 min, 2 h, 5 d."""
    seconds = milliseconds / 1000
    for size, unit in _UNITS:
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"


def age(at: int | None, now: int) -> str:
    """How long ago; nothing for what never was, `0.0 s` for what is not due yet."""
    return "" if at is None else duration(max(0, now - at))


def moment(at: int) -> str:
    """A day and a time of day, in UTC."""
    return f"{datetime.fromtimestamp(at / 1000, UTC):%Y-%m-%d %H:%M:%S}Z"


def time_of_day(at: int) -> str:
    """A time of day with milliseconds, in UTC."""
    return f"{datetime.fromtimestamp(at // 1000, UTC):%H:%M:%S}.{at % 1000:03d}"


def clock_time() -> str:
    """The time of day now, by this machine's clock."""
    return time_of_day(time.time_ns() // 1_000_000)
