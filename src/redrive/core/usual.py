"""What was usual of a figure: a robust limit from its own past, and words for it.

The median and the median deviation hardly move when a few windows were bad. A limit is above nearly all past
windows too, so that what happens every night is usual at night. Known weakness: days of the week are not told
apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

WINDOWS = 24
"""The fewest past windows that make a habit."""

DEVIATIONS = 6.0
_NORMAL = 1.4826
_NEARLY_ALL = 0.98


@dataclass(frozen=True, slots=True)
class Usual:
    """What a figure usually was: from `low` to `high`; above `limit` is unusual."""

    low: float
    high: float
    limit: float
    windows: int


def usual(past: Sequence[float], grain: float) -> Usual | None:
    """What was usual over past windows, or None when there are too few; `grain` is the least deviation that
    counts, such as 1 message or a hundredth."""
    if len(past) < WINDOWS:
        return None
    ordered = sorted(past)
    middle = median(ordered)
    deviation = _NORMAL * median([abs(value - middle) for value in ordered])
    limit = middle + DEVIATIONS * max(deviation, grain)
    return Usual(
        _share_of(ordered, 0.05),
        _share_of(ordered, 0.95),
        max(limit, _share_of(ordered, _NEARLY_ALL)),
        len(past),
    )


def _share_of(ordered: Sequence[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
