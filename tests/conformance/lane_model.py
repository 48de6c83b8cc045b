"""A lane of the model: what people and verdicts switched, and what does not follow from its messages."""

from __future__ import annotations

from dataclasses import dataclass

from redrive.core.lanes import LaneState
from redrive.core.limits import Rate

UNBOUNDED = 10**6


@dataclass(slots=True)
class LaneModel:
    """A lane's switches, its counters, and the running period of its rate."""

    state: LaneState = LaneState.RUNNING
    weight: int = 1
    cap: int | None = None
    rate: Rate | None = None
    period_began_at: int = 0
    period_used: int = 0
    served: int = 0
    done: int = 0
    probe_at: int | None = None
    held_reason: str | None = None

    def switch(self, state: LaneState) -> None:
        self.state, self.probe_at, self.held_reason = state, None, None

    def hold(self, probe_at: int, reason: str) -> None:
        if self.state is LaneState.RUNNING or self.probe_at is not None:
            self.state, self.probe_at, self.held_reason = LaneState.HELD, probe_at, reason

    def end_hold(self) -> None:
        if self.probe_at is not None:
            self.switch(LaneState.RUNNING)

    def room(self, in_flight: int, present: int) -> int:
        """How many more it may hand out; `present` is the instant up to which all has passed."""
        cap = 1 if self.state is LaneState.HELD else self.cap
        room = UNBOUNDED if cap is None else max(0, cap - in_flight)
        if self.rate is None:
            return room
        used = 0 if self._period_over(self.rate, present) else self.period_used
        return min(room, max(0, self.rate.count - used))

    def complete(self, *, parent: bool) -> None:
        """A parent is not work: what was asked for are its children."""
        self.done += not parent
        self.served -= parent

    def serve(self, now: int, present: int) -> None:
        self.served += 1
        if self.rate is None:
            return
        if self._period_over(self.rate, present):
            self.period_began_at, self.period_used = now, 0
        self.period_used += 1

    def _period_over(self, rate: Rate, present: int) -> bool:
        return self.period_began_at + round(1000 * rate.period_s) <= present
