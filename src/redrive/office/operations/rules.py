"""What to do next, decided from numbers: may more letters go, how many now, or must it halt.

No clock and no store: the conductor asks and applies. A letter is judged by the first attempt that was
settled after its re-drive; the store counts that in the same statement (DESIGN, rule 5).
"""

from __future__ import annotations

from dataclasses import dataclass

from redrive.core.letters import OperationTally
from redrive.core.limits import Rate
from redrive.office.operations.operation import Operation

RAMP = 10
_BURST_MS = 250


@dataclass(frozen=True, slots=True)
class Go:
    """At most so many letters may go now, and the gate that then holds; None is no bound."""

    room: int | None
    gate: int | None


@dataclass(frozen=True, slots=True)
class Wait:
    """Letters are out, and their outcome is not known yet."""

    why: str


@dataclass(frozen=True, slots=True)
class Halt:
    """Too many of those that came back failed again."""

    why: str


def judge(operation: Operation, tally: OperationTally) -> Go | Wait | Halt:
    """Whether more letters may go."""
    order, since = operation.order, operation.since
    passed, failed = tally.passed - since.passed, tally.failed - since.failed
    judged, gate = passed + failed, operation.gate
    at_gate = gate is not None and judged >= gate
    enough = judged >= order.halt_least or (at_gate and judged > 0)
    if enough and failed / judged > order.halt_share:
        share = f"{failed:,} of {judged:,} that came back failed again"
        return Halt(f"{share}, more than {order.halt_share:.0%}; {operation.left:,} were not moved")
    if gate is None:
        return Go(None, None)
    if at_gate:
        return Go(None, None) if not order.ramp else _behind_gate(operation, tally, gate * RAMP, judged)
    return _behind_gate(operation, tally, gate, judged)


def _behind_gate(operation: Operation, tally: OperationTally, gate: int, judged: int) -> Go | Wait:
    """A letter that was removed meanwhile is never judged: another goes in its place."""
    since = operation.since
    out = (tally.moved - since.moved) - (tally.removed - since.removed)
    if out < gate:
        return Go(gate - out, gate)
    return Wait(f"waits for the outcome of {gate:,} letters; {judged:,} are known")


@dataclass(frozen=True, slots=True)
class Grant:
    """How many letters may go now, and when the next one may."""

    count: int
    next_at: int


def pace(rate: Rate | None, next_at: int, now: int, wanted: int) -> Grant:
    """So many of `wanted` that the rate is kept: evenly, a quarter of a second's worth at a time at most."""
    if rate is None:
        return Grant(wanted, now)
    interval_ms = 1000 * rate.period_s / rate.count
    begin_at = max(float(next_at or now), now - _BURST_MS)
    if begin_at > now:
        return Grant(0, next_at)
    count = min(wanted, 1 + int((now - begin_at) / interval_ms))
    return Grant(count, round(begin_at + count * interval_ms))
