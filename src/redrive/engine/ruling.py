"""What an outcome becomes: a verdict, the store call that applies it, and the event that tells of it."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from redrive.core.message import Delivery
from redrive.core.ports import Source
from redrive.core.retry import RetryPolicy
from redrive.core.verdict import (
    Bury,
    Complete,
    HoldLane,
    Outcome,
    Release,
    RetryAt,
    Settlement,
    Verdict,
    decide,
)
from redrive.telemetry.events import (
    Buried,
    Completed,
    Event,
    LaneHeld,
    LaneResumed,
    Released,
    RetryScheduled,
    SettleRefused,
    Telemetry,
)


@dataclass(frozen=True, slots=True)
class Ruling:
    """A settlement on its way, and the event that tells of it once it is applied."""

    settlement: Settlement
    event: Event


def rule(
    delivery: Delivery, outcome: Outcome, policy: RetryPolicy, now: int, duration_s: float = 0.0
) -> Ruling:
    """Decide what an outcome means and how it is told."""
    jitter = random.random()  # noqa: S311 - spreads retries, keeps no secret
    verdict = decide(outcome, delivery.progress, policy, now=now, jitter=jitter)
    event = _event(delivery, verdict, policy, now, duration_s)
    return Ruling(Settlement(delivery, verdict), event)


def _event(delivery: Delivery, verdict: Verdict, policy: RetryPolicy, now: int, duration_s: float) -> Event:
    match verdict:
        case Complete():
            return Completed(delivery, duration_s)
        case RetryAt(due_at=due_at, failure=failure):
            return RetryScheduled(delivery, failure, policy.attempts, due_at - now)
        case Release(due_at=due_at, failure=lost):
            return Released(delivery, due_at - now, lost)
        case HoldLane(reason=why):
            return LaneHeld(delivery, why)
        case Bury(reason=reason, failure=failure):
            return Buried(delivery, failure, reason, policy.attempts)


def not_ours(token: str) -> bool:
    """Before anything went unanswered, a refusal means what it says."""
    return False


async def apply(
    source: Source,
    rulings: Sequence[Ruling],
    tell: Callable[[Event], None],
    ours: Callable[[str], bool] = not_ours,
) -> None:
    """Settle a batch in one call and tell what came of each.

    `ours` says of a token, after a call without an answer, that nobody else can have its messages yet: what
    is refused then was settled by that call.
    """
    refused = await source.settle([ruling.settlement for ruling in rulings])
    for ruling in rulings:
        delivery = ruling.settlement.delivery
        stale = delivery.message.id in refused and not ours(delivery.lease.token)
        tell(SettleRefused(delivery) if stale else ruling.event)


class Holds:
    """The lanes that this process knows to be held: a hold is told once, and once its end."""

    def __init__(self, telemetry: Telemetry) -> None:
        self._telemetry = telemetry
        self._lanes: set[tuple[str, str]] = set()

    def tell(self, event: Event) -> None:
        """Tell an event, and what it says of its lane."""
        match event:
            case LaneHeld(delivery=delivery):
                lane = (delivery.message.queue, delivery.message.tenant)
                known = delivery.probe or lane in self._lanes
                self._lanes.add(lane)
                self._telemetry.emit(Released(delivery, 0, None) if known else event)
            case Completed(delivery=delivery) | RetryScheduled(delivery=delivery) | Buried(delivery=delivery):
                self._telemetry.emit(event)
                if delivery.probe or self._lanes:
                    self._resumed(delivery)
            case _:
                self._telemetry.emit(event)

    def _resumed(self, delivery: Delivery) -> None:
        lane = (delivery.message.queue, delivery.message.tenant)
        if delivery.probe or lane in self._lanes:
            self._lanes.discard(lane)
            self._telemetry.emit(LaneResumed(delivery))
