"""Ages in doubling buckets, as Postfix's qshape has them: up to 5 minutes, 10, 20, … 1280; then two that show
what retention takes next: up to 7 days and 30, and beyond.
"""

from __future__ import annotations

_MINUTES = tuple(5 * 2**step for step in range(9))
_DAYS = (7, 30)
BOUNDS_MINUTES: tuple[int, ...] = (*_MINUTES, *(days * 24 * 60 for days in _DAYS))
LABELS: tuple[str, ...] = (
    *(f"{minutes}m" for minutes in _MINUTES),
    *(f"{days}d" for days in _DAYS),
    f"{_DAYS[-1]}d+",
)


def edges(now: int) -> dict[str, int]:
    """The instants between the buckets, named as the statements bind them."""
    return {f"edge_{number}": now - minutes * 60_000 for number, minutes in enumerate(BOUNDS_MINUTES)}
