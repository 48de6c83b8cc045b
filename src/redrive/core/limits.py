"""A rate: so many hand-outs a period, decided from two stored numbers.

`reserve` is the whole rule; the stores keep a Window a queue, and one a lane that has a rate of its own, and
ask how many messages may go now.
Known weakness: periods are counted from their first hand-out, so the end of one and the start of the
next can together pass the count within one period's length.
"""

from __future__ import annotations

import re

from msgspec import Struct

from redrive.core.errors import ConfigurationError

_PERIODS = {"s": 1.0, "sec": 1.0, "second": 1.0, "min": 60.0, "minute": 60.0, "h": 3600.0, "hour": 3600.0}
_UNITS = {1.0: "s", 60.0: "min", 3600.0: "h"}
_RATE = re.compile(r"(\d{1,9}) ?/ ?([a-z]{1,6})", re.ASCII)


class Rate(Struct, frozen=True):
    """At most `count` hand-outs a period of `period_s`."""

    count: int
    period_s: float

    def __post_init__(self) -> None:
        if self.count < 1 or self.period_s <= 0:
            raise ConfigurationError(
                f"rate {self} lets nothing through: write at least 1, such as 1/s or 100/min"
            )

    def __str__(self) -> str:
        """As it is written: `100/min`."""
        return f"{self.count}/{_UNITS.get(self.period_s, f'{self.period_s:g} s')}"

    @classmethod
    def parse(cls, text: object) -> Rate:
        """A rate written as `100/min`, `20/s` or `5000/hour`, or ConfigurationError."""
        match = _RATE.fullmatch(text.strip().lower()) if isinstance(text, str) else None
        if match is None or match[2] not in _PERIODS:
            raise ConfigurationError(f"rate {text!r} cannot be read: write 100/min, 20/s or 5000/hour")
        return cls(int(match[1]), _PERIODS[match[2]])


class Window(Struct, frozen=True):
    """What the store keeps of a rate: when the running period began and how many it has handed out."""

    began_at: int = 0
    used: int = 0


class Reserved(Struct, frozen=True):
    """`granted` messages may go now; when none may, the next may at `next_at`."""

    granted: int
    window: Window
    next_at: int | None


def reserve(rate: Rate, window: Window, now: int, wanted: int) -> Reserved:
    """How many of `wanted` may go at `now`; a period begins with its first hand-out."""
    ends_at = window.began_at + round(rate.period_s * 1000)
    if now >= ends_at or now < window.began_at:
        window = Window(now, 0)
        ends_at = now + round(rate.period_s * 1000)
    granted = max(0, min(wanted, rate.count - window.used))
    used = Window(window.began_at, window.used + granted)
    return Reserved(granted, used, ends_at if used.used >= rate.count else None)


def free_at(rate: Rate | None, window: Window) -> int:
    """When the next hand-out may be: 0 for at once, otherwise the end of a period that is used up."""
    if rate is None or window.used < rate.count:
        return 0
    return window.began_at + round(rate.period_s * 1000)
