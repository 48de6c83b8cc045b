"""How much totals grew within a window, from what the process that watches saw of them look by look.

No store has what a server had rejected ten minutes ago, or how many messages workers had been handed. Until a
process has watched for a whole window, and again after another one did for a while, what it knows is a part.
"""

from __future__ import annotations

from collections import deque
from typing import Generic, TypeVar

from redrive.office.alerts.look import Look

Total = TypeVar("Total")


class _Totals(Generic[Total]):
    """A total as it was at each look, back to the beginning of the window."""

    def __init__(self) -> None:
        self._seen: deque[tuple[int, Total]] = deque()

    def note(self, now: int, total: Total) -> None:
        self._seen.append((now, total))

    def before(self, now: int, window_s: float) -> tuple[Total, bool]:
        """The total when the window began; True when it is of later, since nobody watched then."""
        window_ms = round(1000 * window_s)
        while len(self._seen) > 1 and self._seen[1][0] <= now - window_ms:
            self._seen.popleft()
        if self._seen[0][0] < now - 2 * window_ms:
            self._seen.popleft()
        at, total = self._seen[0]
        return total, at > now - window_ms


class Rejections:
    """The connections that a server has rejected."""

    def __init__(self) -> None:
        self._totals: _Totals[int] = _Totals()
        self._sum = 0
        self._last: int | None = None

    async def within(self, look: Look, window_s: float) -> tuple[int, bool]:
        """How many within the window, and whether that is a part."""
        now_at = (await look.capacity()).rejected_connections or 0
        before = now_at if self._last is None else self._last
        self._sum += now_at - before if now_at >= before else now_at  # a new server begins at zero
        self._last = now_at
        self._totals.note(look.now, self._sum)
        began, partial = self._totals.before(look.now, window_s)
        return self._sum - began, partial


class Handovers:
    """What was counted of hand-overs to workers."""

    def __init__(self) -> None:
        self._totals: _Totals[dict[str, tuple[int, float]]] = _Totals()

    async def within(self, look: Look, window_s: float) -> tuple[dict[str, tuple[int, float]], bool]:
        """How many first attempts of each queue within the window, and how many seconds they waited in the
        mean; and whether that is a part."""
        handed = await look.handovers()
        self._totals.note(look.now, handed)
        began, partial = self._totals.before(look.now, window_s)
        found: dict[str, tuple[int, float]] = {}
        for queue, (count, seconds) in handed.items():
            had, had_s = began.get(queue, (0, 0.0))
            many = max(0, count - had)
            found[queue] = many, max(0.0, seconds - had_s) / many if many else 0.0
        return found, partial
