"""How fast it goes: what became of messages a second, and whose they were, between two overviews.

A single overview says it of the last whole minute, and of all that ever came to an end. Whoever looks again
and again hears it of the time since it began to look, at most of the last minute.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass

from redrive.core.totals import MINUTE_MS, Flow
from redrive.office.overview import StoreOverview


@dataclass(frozen=True, slots=True)
class Throughput:
    """Messages a second by what became of them, over `span_s`; tenants' parts of what came to an end."""

    span_s: float
    per_s: Mapping[Flow, float]
    shares: Mapping[str, float]


class ThroughputMeter:
    """Compares each overview with one of up to a minute before."""

    def __init__(self) -> None:
        self._seen: deque[StoreOverview] = deque()

    def measure(self, seen: StoreOverview) -> Throughput:
        """How fast it goes, now that this was seen."""
        while self._seen and seen.at - self._seen[0].at > MINUTE_MS:
            self._seen.popleft()
        before = self._seen[0] if self._seen else None
        self._seen.append(seen)
        if before is None or before.at >= seen.at:
            return _of_the_last_minute(seen)
        return _between(before, seen)


def _of_the_last_minute(seen: StoreOverview) -> Throughput:
    minute = seen.minutes[-2]
    per_s = {flow: getattr(minute, flow.value) / 60 for flow in Flow}
    return Throughput(60.0, per_s, {one.tenant: seen.share(one) for one in seen.tenants})


def _between(before: StoreOverview, seen: StoreOverview) -> Throughput:
    span_s = (seen.at - before.at) / 1000
    ended = max(1, seen.processed - before.processed)
    had = {one.tenant: one.processed for one in before.tenants}
    shares = {
        one.tenant: min(1.0, max(0, one.processed - had[one.tenant]) / ended)
        for one in seen.tenants
        if one.tenant in had
    }
    per_s = {flow: max(0, seen.totals[flow] - before.totals[flow]) / span_s for flow in Flow}
    return Throughput(span_s, per_s, shares)
