"""What an outcome becomes: a verdict, the store call that applies it, and the event that tells of it."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from redrive.core.failure import Kind
from redrive.core.message import Delivery
from redrive.core.ports import Source
from redrive.core.retry import RetryPolicy
from redrive.core.verdict import (
    Bury,
    Complete,
    Failed,
    HoldLane,
    Outcome,
    Release,
    RetryAt,
    Settlement,
    decide,
)
from redrive.telemetry.door import Telemetry
from redrive.telemetry.events import (
    BatchSettled,
    Buried,
    Completed,
    Event,
    LaneHeld,
    LaneResumed,
    Released,
    RetryScheduled,
    SettleRefused,
)


class Ruling(Settlement, frozen=True, gc=False):
    """A settlement on its way, and what is told of it once it is applied."""

    policy: RetryPolicy
    ruled_at: int
    duration_s: float

    def event(self) -> Event:
        """How it is told."""
        match self.verdict:
            case Complete():
                return Completed(self.delivery, self.duration_s)
            case RetryAt(due_at=due_at, failure=failure):
                delay_ms = due_at - self.ruled_at
                return RetryScheduled(self.delivery, failure, self.policy.attempts, delay_ms, self.duration_s)
            case Release(due_at=due_at, failure=lost):
                return Released(self.delivery, due_at - self.ruled_at, lost)
            case HoldLane(reason=why):
                return LaneHeld(self.delivery, why)
            case Bury(reason=reason, failure=failure):
                return Buried(self.delivery, failure, reason, self.policy.attempts, self.duration_s)


def rule(
    delivery: Delivery, outcome: Outcome, policy: RetryPolicy, now: int, duration_s: float | None = None
) -> Ruling:
    """Decide what an outcome means and how it is told; without a duration where no handler ran."""
    if duration_s is not None and isinstance(outcome, Failed) and outcome.failure.kind is not Kind.EXPIRED:
        timed = replace(outcome.failure, duration_ms=round(1000 * duration_s))
        outcome = Failed(timed, outcome.not_before_at)
    jitter = random.random()  # noqa: S311 - spreads retries, keeps no secret
    verdict = decide(outcome, delivery.progress, policy, now=now, jitter=jitter)
    return Ruling(delivery, verdict, policy, now, duration_s or 0.0)


def not_ours(token: str) -> bool:
    """Before anything went unanswered, a refusal means what it says."""
    return False


async def apply(
    source: Source,
    rulings: Sequence[Ruling],
    tell: Callable[[Sequence[Event]], None],
    ours: Callable[[str], bool] = not_ours,
) -> None:
    """Settle a batch in one call and tell what came of each.

    `ours` says of a token, after a call without an answer, that nobody else can have its messages yet: what
    is refused then was settled by that call.
    """
    began_s = time.perf_counter()
    refused = await source.settle(rulings)
    told: list[Event] = [BatchSettled(len(rulings), time.perf_counter() - began_s)]
    for ruling in rulings:
        delivery = ruling.delivery
        stale = delivery.message.id in refused and not ours(delivery.lease.token)
        told.append(SettleRefused(delivery) if stale else ruling.event())
    tell(told)


class Holds:
    """The lanes that this process knows to be held: a hold is told once, and once its end."""

    def __init__(self, telemetry: Telemetry) -> None:
        self._telemetry = telemetry
        self._lanes: set[tuple[str, str]] = set()

    def tell(self, events: Sequence[Event]) -> None:
        """Tell what came of a batch, and what it says of its lanes."""
        if self._lanes or any(map(_says_of_lane, events)):
            for event in events:
                self._tell(event)
        else:
            self._telemetry.emit_all(events)

    def _tell(self, event: Event) -> None:
        match event:
            case LaneHeld(delivery=delivery):
                lane = (delivery.message.queue, delivery.message.tenant)
                known = delivery.probe or lane in self._lanes
                self._lanes.add(lane)
                self._telemetry.emit(Released(delivery, 0, None) if known else event)
            case Completed(delivery=delivery) | RetryScheduled(delivery=delivery) | Buried(delivery=delivery):
                self._telemetry.emit(event)
                self._resumed(delivery)
            case _:
                self._telemetry.emit(event)

    def _resumed(self, delivery: Delivery) -> None:
        lane = (delivery.message.queue, delivery.message.tenant)
        if delivery.probe or lane in self._lanes:
            self._lanes.discard(lane)
            self._telemetry.emit(LaneResumed(delivery))


def _says_of_lane(event: Event) -> bool:
    """Whether an event may begin or end a hold, where none is known."""
    match event:
        case LaneHeld():
            return True
        case Completed(delivery=delivery) | RetryScheduled(delivery=delivery) | Buried(delivery=delivery):
            return delivery.probe
        case _:
            return False
