"""Settles in batches: what handlers said becomes verdicts, verdicts become few store calls.

A settlement waits a few milliseconds for company while other attempts are under way, and goes at once
when nothing else is. A store that does not answer is asked again until the lease is really lost (P8).
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from redrive.core.errors import StoreError, StoreUnavailable
from redrive.core.message import Delivery
from redrive.core.ports import Source
from redrive.core.retry import RetryPolicy
from redrive.core.verdict import Bury, Complete, Hold, Outcome, Release, RetryAt, Settlement, Verdict, decide
from redrive.engine.capacity import Capacity
from redrive.engine.keeper import Keeper
from redrive.telemetry.events import (
    Buried,
    Completed,
    Event,
    LaneHeld,
    LaneResumed,
    LoopFailed,
    Released,
    RetryScheduled,
    SettleRefused,
    Telemetry,
)

_COMPANY = 500
_COMPANY_S = 0.010


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
        case Hold(reason=why):
            return LaneHeld(delivery, why)
        case Bury(reason=reason, failure=failure):
            return Buried(delivery, failure, reason, policy.attempts)


def _not_ours(token: str) -> bool:
    """Before anything went unanswered, a refusal means what it says."""
    return False


async def apply(
    source: Source,
    rulings: Sequence[Ruling],
    tell: Callable[[Event], None],
    ours: Callable[[str], bool] = _not_ours,
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


class Settler:
    """The rulings of one worker, in order of arrival. `outstanding` counts the attempts under way."""

    def __init__(
        self,
        source: Source,
        telemetry: Telemetry,
        keeper: Keeper,
        capacity: Capacity,
        outstanding: Callable[[], int],
    ) -> None:
        self._source = source
        self._telemetry = telemetry
        self._holds = Holds(telemetry)
        self._keeper = keeper
        self._capacity = capacity
        self._outstanding = outstanding
        self._waiting: list[Ruling] = []
        self._some = asyncio.Event()
        self._enough = asyncio.Event()

    def add(self, ruling: Ruling, *, last: bool = True) -> None:
        """Settle this soon; at once when it is the `last` of its queue and no other queue is at work."""
        self._waiting.append(ruling)
        self._some.set()
        if len(self._waiting) >= _COMPANY or (last and self._outstanding() <= 1):
            self._enough.set()

    def hurry(self) -> None:
        """Settle now what waits: a claim is about to write, and both can share one durable write."""
        if self._waiting:
            self._enough.set()

    def nudge(self) -> None:
        """Wake the loop so that it sees that the worker stops."""
        self._some.set()
        self._enough.set()

    async def step(self) -> float:
        """Settle one batch."""
        await self._some.wait()
        await self._wait_for_company()
        self._some.clear()
        self._enough.clear()
        batch, self._waiting = self._waiting, []
        if batch:
            await self._settle(batch)
        return 0.0

    async def flush(self) -> None:
        """Settle all that waits now."""
        while self._waiting:
            batch, self._waiting = self._waiting, []
            await self._settle(batch)

    async def _wait_for_company(self) -> None:
        try:
            async with asyncio.timeout(_COMPANY_S):
                await self._enough.wait()
        except TimeoutError:
            return

    async def _settle(self, batch: list[Ruling]) -> None:
        for token, count in _tokens(batch).items():
            self._keeper.settling(token, count)
        await self._settle_patiently(batch)

    async def _settle_patiently(self, batch: list[Ruling]) -> None:
        pause_s, ours = 0.05, _not_ours
        while batch:
            try:
                await apply(self._source, batch, self._holds.tell, ours)
            except StoreUnavailable:
                ours = self._keeper.holds
                await asyncio.sleep(pause_s * random.uniform(0.5, 1.0))  # noqa: S311 - spreads load
                pause_s = min(2.0, pause_s * 2)
                batch = self._drop_lost(batch)
            except StoreError as error:
                await self._settle_singly(batch, error)
                return
            else:
                self._forget(batch)
                return

    async def _settle_singly(self, batch: list[Ruling], error: StoreError) -> None:
        """One settlement the store cannot take must not hold back its neighbours."""
        for ruling in batch:
            if len(batch) > 1:
                await self._settle_patiently([ruling])
            else:
                self._telemetry.emit(LoopFailed("settle", error))
                self._forget(batch)

    def _drop_lost(self, batch: list[Ruling]) -> list[Ruling]:
        kept = [ruling for ruling in batch if self._keeper.holds(_token(ruling))]
        lost = [ruling for ruling in batch if not self._keeper.holds(_token(ruling))]
        for ruling in lost:
            self._telemetry.emit(SettleRefused(ruling.settlement.delivery))
        self._forget(lost)
        return kept

    def _forget(self, batch: Sequence[Ruling]) -> None:
        for token, count in _tokens(batch).items():
            self._keeper.settled(token, count)
        self._capacity.settled(len(batch))


def _token(ruling: Ruling) -> str:
    return ruling.settlement.delivery.lease.token


def _tokens(batch: Sequence[Ruling]) -> Counter[str]:
    return Counter(map(_token, batch))
