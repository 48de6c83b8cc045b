"""Ages in doubling buckets, as Postfix's qshape has them: up to 5 minutes, 10, 20, … 1280, and beyond."""

from __future__ import annotations

BOUNDS_MINUTES: tuple[int, ...] = tuple(5 * 2**step for step in range(9))
LABELS: tuple[str, ...] = (*(f"{minutes}m" for minutes in BOUNDS_MINUTES), f"{BOUNDS_MINUTES[-1]}m+")


def edges(now: int) -> dict[str, int]:
    """The instants between the buckets, named as the statements bind them."""
    return {f"edge_{number}": now - minutes * 60_000 for number, minutes in enumerate(BOUNDS_MINUTES)}
