"""What people mean by what they hand in: texts, codes and delays from whatever object stands for one; and how
an instant is written for them."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import overload

LONGEST = timedelta(days=3650)
"""No delay is longer, so that every instant fits every store."""

_UNREADABLE = "its text cannot be read"
_WANTED_SPAN = "give a timedelta or seconds"
_WANTED = "give a timedelta, seconds or an aware datetime"


def as_text(value: object) -> str:
    """The text that a value stands for, empty for None. Never raises, whatever the value does."""
    try:
        if value is None:
            return ""
        if isinstance(value, bytes | bytearray):
            return value.decode("utf-8", "replace")
        plain = value.value if isinstance(value, Enum) else value
        text = str.__str__(str(plain))  # a subclass of str may have methods that raise
        return type(value).__name__ if isinstance(value, BaseException) and not text.strip() else text
    except BaseException:  # noqa: BLE001 - a user's object may raise anything
        return _UNREADABLE


def as_code(value: object) -> str | None:
    """A short code: a number stands for its digits, an enumeration's member for its value."""
    return as_text(value).strip() or None


def as_delay(value: object) -> timedelta | datetime:
    """A delay or an instant, or ValueError; a bare number, also as text, is seconds."""
    if isinstance(value, datetime):
        if value.utcoffset() is None:
            raise ValueError(f"is a naive datetime, which has no instant: {_WANTED}")
        return value
    return _span(value, _WANTED)


def as_span(value: object) -> timedelta:
    """A length of time, or ValueError; a bare number, also as text, is seconds."""
    return _span(value, _WANTED_SPAN)


def _span(value: object, wanted: str) -> timedelta:
    if isinstance(value, timedelta):
        return min(value, LONGEST)
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError(f"is a {type(value).__name__}: {wanted}")
    try:
        seconds = float(value)
    except (ValueError, OverflowError):
        raise ValueError(f"is not a number of seconds: {wanted}") from None
    if math.isnan(seconds):
        raise ValueError(f"is not a number of seconds: {wanted}")
    longest_s = LONGEST.total_seconds()
    return timedelta(seconds=max(0.0, min(seconds, longest_s)))


def instant_at(delay: timedelta | datetime, now: int) -> int:
    """The instant in milliseconds that a delay leads to: not in the past, and not too far to be stored."""
    longest_ms = round(1000 * LONGEST.total_seconds())
    if isinstance(delay, timedelta):
        asked_ms = round(1000 * delay.total_seconds())
    else:
        asked_ms = round(1000 * delay.timestamp()) - now
    return now + max(0, min(asked_ms, longest_ms))


@overload
def instant(at: int) -> str: ...
@overload
def instant(at: int | None) -> str | None: ...
def instant(at: int | None) -> str | None:
    """ISO 8601 with milliseconds and Z."""
    if at is None:
        return None
    moment = datetime.fromtimestamp(at // 1000, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{at % 1000:03d}Z"
