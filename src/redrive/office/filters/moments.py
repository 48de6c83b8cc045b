"""Durations and instants as people write them: 2h30m, 2026-01-31, 03:00, yesterday.

Everything is in UTC unless it names an offset, as all times that Redrive shows are. A date stands for its
midnight; a time of day for the last time it was that time.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, time, timedelta

_DURATION = re.compile(
    r"(?:(\d{1,7})w)?(?:(\d{1,7})d)?(?:(\d{1,7})h)?(?:(\d{1,7})m)?(?:(\d{1,7})s)?", re.ASCII
)
_UNITS_S = (604_800, 86_400, 3_600, 60, 1)
_TIME_OF_DAY = re.compile(r"(\d{2}:\d{2}(?::\d{2})?)(Z|[+-]\d{2}:\d{2})?", re.ASCII)
_DAYS = {"today": 0, "yesterday": 1}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DAY = timedelta(days=1)
_LAST_YEAR = 9998


def read_duration(text: str) -> int | None:
    """Seconds; None where it is no duration."""
    found = _DURATION.fullmatch(text)
    if found is None or not text:
        return None
    return sum(int(count or 0) * unit_s for count, unit_s in zip(found.groups(), _UNITS_S, strict=True))


def is_relative(text: str) -> bool:
    """Whether an instant depends on when it is asked."""
    return text.lower() in _DAYS or _TIME_OF_DAY.fullmatch(text) is not None


def read_instant(text: str, now: int) -> int | None:
    """Milliseconds since 1970; None where it is no instant."""
    try:
        moment = _moment(text, _EPOCH + timedelta(milliseconds=now))
        at = (moment - _EPOCH) // timedelta(milliseconds=1)
    except (ValueError, OverflowError):
        return None
    return at if at >= 0 and moment.astimezone(UTC).year <= _LAST_YEAR else None


def read_day(text: str, now: int) -> tuple[int, int] | None:
    """The first instant of a whole day, and that of the next; None where it is no day."""
    if text.lower() not in _DAYS and not _is_date(text):
        return None
    begin = read_instant(text, now)
    return None if begin is None else (begin, begin + _DAY // timedelta(milliseconds=1))


def _moment(text: str, now: datetime) -> datetime:
    if text.lower() in _DAYS:
        return datetime.combine(now.date() - _DAYS[text.lower()] * _DAY, time(), UTC)
    if found := _TIME_OF_DAY.fullmatch(text):
        return _last(time.fromisoformat(found[1] + (found[2] or "Z")), now)
    read = datetime.fromisoformat(text)
    return read if read.tzinfo else read.replace(tzinfo=UTC)


def _last(at: time, now: datetime) -> datetime:
    """Today at this time in its own zone, or yesterday where that is still to come."""
    moment = datetime.combine(now.astimezone(at.tzinfo).date(), at)
    return moment - _DAY if moment > now else moment


def _is_date(text: str) -> bool:
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True
