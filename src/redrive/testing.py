"""For users' own tests: your app on a store and a clock of the test's own, and a mailbox.

Nothing is replaced: a real store and the app's own handlers and rules run, only time is moved. Attempts run
one after the other, in the order in which the store hands them out. Known weakness: `trial` moves the store,
not the relay of a mail gateway; give that the mailbox's address.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from types import TracebackType

from msgspec.structs import replace

from redrive.app import Redrive
from redrive.config import Settings
from redrive.core.letters import DeadLetter
from redrive.core.message import Delivery
from redrive.core.ports import PAGE, Claim, Claimed
from redrive.core.values import as_span
from redrive.core.verdict import Bury, Complete, HoldLane, Outcome, Release, RetryAt
from redrive.engine.execution import Executor
from redrive.engine.handlers import Served
from redrive.engine.ids import new_token
from redrive.engine.ruling import apply, rule
from redrive.engine.upkeep import Housekeeping
from redrive.mailbox import Mailbox

__all__ = ["Clock", "Mailbox", "SyncTrial", "Trial", "dead_letters", "run_until_idle", "trial"]

_NAMES = {Complete: "done", RetryAt: "retried", Release: "released", Bury: "buried", HoldLane: "held"}
_LEASE_S = 86_400.0 * 365
_STEPS = 100_000


class Clock:
    """Moves the time that an open app's stores see."""

    def __init__(self, app: Redrive) -> None:
        self._app = app

    @property
    def now(self) -> datetime:
        return datetime.fromtimestamp(self._app.store.now() / 1000, UTC)

    def advance(self, by: timedelta | float) -> None:
        """Move forward; a number is seconds."""
        self._app.skew_ms += round(as_span(by).total_seconds() * 1000)

    def advance_to(self, instant_at: int) -> None:
        """Move forward to an instant of the store's clock; never back."""
        self._app.skew_ms += max(0, instant_at - self._app.store.now())


class Trial:
    """An app in a test that awaits: on a store and a clock of the test's own."""

    def __init__(self, app: Redrive) -> None:
        self.app = app
        self.clock = Clock(app)

    async def run_until_idle(self, *, jump: bool = True) -> Counter[str]:
        """Run everything, and count what came of it: done, retried, released, buried, held.

        Time jumps to whatever is scheduled next; with `jump=False` only what is due now runs.
        """
        return await run_until_idle(self.app, clock=self.clock if jump else None)

    async def dead_letters(self, queue: str | None = None) -> list[DeadLetter]:
        """Every dead letter, oldest first."""
        return await dead_letters(self.app, queue)


class SyncTrial:
    """The same in a test that does not await, beside `app.sync.submit(…)`."""

    def __init__(self, app: Redrive) -> None:
        self.app = app
        self.clock = Clock(app)

    def run_until_idle(self, *, jump: bool = True) -> Counter[str]:
        """As `Trial.run_until_idle`."""
        return self.app.sync.wait(Trial(self.app).run_until_idle(jump=jump))

    def dead_letters(self, queue: str | None = None) -> list[DeadLetter]:
        """As `Trial.dead_letters`."""
        return self.app.sync.wait(dead_letters(self.app, queue))


class trial:  # noqa: N801 - reads as the verb that it is
    """Move an app, while inside, to a temporary SQLite store and a clock that jumps.

    `async with trial(app) as test:` opens the app; `with trial(app) as test:` is for tests that do not await.
    Handlers, retries and queues stay as the app has them. An app that is open is refused: close it first.
    """

    def __init__(self, app: Redrive) -> None:
        self._app = app
        self._before = app.settings
        self._folder = Path()

    async def __aenter__(self) -> Trial:
        self._move()
        await self._app.open()
        return Trial(self._app)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await self._app.close()
            await asyncio.to_thread(self._app.sync.close)
        finally:
            self._move_back()

    def __enter__(self) -> SyncTrial:
        self._move()
        self._app.sync.wait(self._app.open())
        return SyncTrial(self._app)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._app.sync.close()
        finally:
            self._move_back()

    def _move(self) -> None:
        if self._app.is_open:
            raise RuntimeError("the app is open, on its own store: close it, then move it to the test's")
        self._before = self._app.settings
        self._folder = Path(mkdtemp(prefix="redrive-trial-"))
        self._app.configure(_moved(self._before, self._folder))

    def _move_back(self) -> None:
        self._app.configure(self._before)
        self._app.skew_ms = 0
        rmtree(self._folder, ignore_errors=True)


def _moved(settings: Settings, folder: Path) -> Settings:
    return replace(
        settings,
        store=f"sqlite:///{folder}/redrive.db",
        data=folder,
        retention=replace(settings.retention, folder=str(folder / "archive")),
        office=replace(settings.office, index=None),
        code={},
    )


async def run_until_idle(app: Redrive, *, clock: Clock | None = None) -> Counter[str]:
    """Run all that is due, and count what came of it: done, retried, released, buried.

    With a clock, time jumps to whatever is scheduled next, until nothing waits that a handler serves:
    a message's whole life, retries and all, in milliseconds.
    """
    executor = Executor(app.store.now, app.telemetry, _LEASE_S)
    upkeep = Housekeeping(
        app.store, app.telemetry, app.policy, app.settings.finished, app.settings.retention, _LEASE_S
    )
    tally: Counter[str] = Counter()
    deaths = app.deaths()
    try:
        for one in deaths:
            await one.begin()
        for _ in range(_STEPS):
            await upkeep.reclaim()
            worked, next_at = await _pass(app, executor, tally)
            told = [await one.follow() for one in deaths]
            if worked or any(told):
                continue
            if clock is None or next_at is None:
                await app.hooks_idle()
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
                began_s = time.perf_counter()
                outcome = await _attempt(executor, served, delivery)
                duration_s = time.perf_counter() - began_s
                ruling = rule(delivery, outcome, served.policy, app.store.now(), duration_s)
                await apply(app.store, [ruling], app.telemetry.emit_all)
                tally[_NAMES[type(ruling.verdict)]] += 1
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
        fair=served.settings.fair,
    )
    return await app.store.claim(claim)
