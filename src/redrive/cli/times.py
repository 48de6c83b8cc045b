"""Instants and durations as people read them."""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime

from redrive.cli.problems import CommandError, Exit

_SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
_SPAN = re.compile(r"(\d{1,6})([smhd])", re.ASCII)
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


def since(text: str, now: int) -> int:
    """The instant that `2h`, `30m` or `7d` ago is, or a date or time such as 2026-01-31T08:00Z."""
    span = _span(text)
    return _instant(text) if span is None else now - span


def until(text: str, now: int) -> int:
    """The same of what is to come: `2h` is in two hours."""
    span = _span(text)
    return _instant(text) if span is None else now + span


def _span(text: str) -> int | None:
    found = _SPAN.fullmatch(text.strip().lower())
    return None if found is None else 1000 * int(found[1]) * _SECONDS[found[2]]


def _instant(text: str) -> int:
    try:
        read = datetime.fromisoformat(text.strip())
        return round(1000 * (read if read.tzinfo else read.replace(tzinfo=UTC)).timestamp())
    except (ValueError, OverflowError):
        problem = f"{text!r} is no time: write a span such as 30m, 2h or 7d, or 2026-01-31T08:00Z"
        raise CommandError(problem, Exit.USAGE) from None


def time_of_day(at: int) -> str:
    """A time of day with milliseconds, in UTC."""
    return f"{datetime.fromtimestamp(at // 1000, UTC):%H:%M:%S}.{at % 1000:03d}"


def clock_time() -> str:
    """The time of day now, by this machine's clock."""
    return time_of_day(time.time_ns() // 1_000_000)
