"""Instants and durations as people read them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Annotated

from cyclopts import Parameter, Token

from redrive.cli.problems import CommandError, Exit
from redrive.core.values import as_span
from redrive.office.filters.moments import read_duration

_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"))


def duration(milliseconds: int) -> str:
    """In the largest unit that fits: 0.4 s, 12 s, 3 min, 2 h, 5 d."""
    seconds = milliseconds / 1000
    for size, unit in _UNITS:
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"


def age(at: int | None, now: int) -> str:
    """How long ago; nothing for what never was."""
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
    seconds = read_duration(text.strip().lower())
    return None if seconds is None else 1000 * seconds


def _length(kind: object, tokens: Sequence[Token]) -> timedelta:
    text = tokens[0].value.strip().lower()
    seconds = read_duration(text)
    try:
        return as_span(text if seconds is None else seconds)
    except ValueError:
        problem = (
            f"{tokens[0].keyword} {text!r} is not a length of time: write 90 (seconds), 30s, 5m, 2h30m or 7d"
        )
        raise CommandError(problem, Exit.USAGE) from None


Length = Annotated[timedelta | None, Parameter(converter=_length)]
"""A flag that is a length of time: a number is seconds, 2h30m says its units."""


def _instant(text: str) -> int:
    try:
        read = datetime.fromisoformat(text.strip())
        return round(1000 * (read if read.tzinfo else read.replace(tzinfo=UTC)).timestamp())
    except (ValueError, OverflowError):
        problem = f"{text!r} is not a valid time: write a span such as 30m, 2h or 7d, or 2026-01-31T08:00Z"
        raise CommandError(problem, Exit.USAGE) from None


def time_of_day(at: int) -> str:
    """A time of day with milliseconds, in UTC."""
    return f"{datetime.fromtimestamp(at // 1000, UTC):%H:%M:%S}.{at % 1000:03d}"


def clock_time() -> str:
    """The time of day now, by this machine's clock."""
    return time_of_day(time.time_ns() // 1_000_000)
