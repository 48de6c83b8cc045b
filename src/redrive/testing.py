"""For users' own tests: a clock that jumps, a way to run everything that is due, and a mailbox.

Nothing is replaced: the app's own store, handlers and rules run, only time is moved. Attempts run one
after the other, in the order in which the store hands them out.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import UTC, datetime, timedelta

from redrive.app import Redrive
from redrive.core.letters import DeadLetter
from redrive.core.message import Delivery
from redrive.core.ports import PAGE, Claim, Claimed
from redrive.core.verdict import Bury, Complete, Hold, Outcome, Release, RetryAt
from redrive.engine.execution import Executor
from redrive.engine.handlers import Served
from redrive.engine.ids import new_token
from redrive.engine.settling import apply, rule
from redrive.engine.upkeep import Upkeep
from redrive.mailbox import Mailbox

__all__ = ["Clock", "Mailbox", "dead_letters", "run_until_idle"]

_NAMES = {Complete: "done", RetryAt: "retried", Release: "released", Bury: "buried", Hold: "held"}
_LEASE_S = 86_400.0 * 365
_STEPS = 100_000


class Clock:
    """Moves the time that an open app's store sees."""

    def __init__(self, app: Redrive) -> None:
        self._app = app

    @property
    def now(self) -> datetime:
        return datetime.fromtimestamp(self._app.store.now() / 1000, UTC)

    def advance(self, by: timedelta) -> None:
        """Move forward."""
        self._app.store.skew_ms += round(by.total_seconds() * 1000)

    def advance_to(self, instant_at: int) -> None:
        """Move forward to an instant of the store's clock; never back."""
        self._app.store.skew_ms += max(0, instant_at - self._app.store.now())


async def run_until_idle(app: Redrive, *, clock: Clock | None = None) -> Counter[str]:
    """Run all that is due, and count what came of it: done, retried, released, buried.

    With a clock, time jumps to whatever is scheduled next, until nothing waits that a handler serves:
    a message's whole life, retries and all, in milliseconds.
    """
    executor = Executor(app.store.now, app.telemetry, _LEASE_S)
    upkeep = Upkeep(
        app.store, app.telemetry, app.policy, app.settings.finished, app.settings.retention, _LEASE_S
    )
    tally: Counter[str] = Counter()
    try:
        for _ in range(_STEPS):
            await upkeep.reclaim()
            worked, next_at = await _pass(app, executor, tally)
            if worked:
                continue
            if clock is None or next_at is None:
                return tally
            clock.advance_to(next_at)
    finally:
        executor.close()
    raise RuntimeError(f"still not idle after {_STEPS} steps: does a handler submit to itself for ever?")


async def dead_letters(app: Redrive, queue: str | None = None) -> list[DeadLetter]:
    """Every dead letter, oldest first."""
    found: list[DeadLetter] = []
    cursor = None
    while True:
        page = await app.store.letters(queue, after=cursor, limit=PAGE)
        found += page.letters
        cursor = page.cursor
        if cursor is None:
            return found


async def _pass(app: Redrive, executor: Executor, tally: Counter[str]) -> tuple[bool, int | None]:
    """One claim of every queue; whether anything ran, and when something next may."""
    worked, soonest = False, None
    for served in app.served():
        for alone in (False, True):
            claimed = await _claim(app, served, alone)
            for delivery in claimed.deliveries:
                worked = True
                outcome = await _attempt(executor, served, delivery)
                ruling = rule(delivery, outcome, served.policy, app.store.now())
                await apply(app.store, [ruling], app.telemetry.emit)
                tally[_NAMES[type(ruling.settlement.verdict)]] += 1
            if claimed.next_at is not None and not alone:
                soonest = claimed.next_at if soonest is None else min(soonest, claimed.next_at)
    return worked, soonest


async def _attempt(executor: Executor, served: Served, delivery: Delivery) -> Outcome:
    """An attempt in a task of its own, so that a handler that cancels itself does not cancel the test."""
    task = asyncio.create_task(executor.run(served, delivery))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        executor.give_up(task)
        await task
        raise


async def _claim(app: Redrive, served: Served, alone: bool) -> Claimed:
    claim = Claim(
        queue=served.queue,
        token=new_token(),
        limit=1 if alone else PAGE,
        lease_s=_LEASE_S,
        quantum=app.settings.worker.quantum,
        rate=served.rate,
        alone=alone,
    )
    return await app.store.claim(claim)
