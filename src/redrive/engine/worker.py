"""The worker: stations, settler, keeper and duties of one process, from start to a graceful end.

On stop: no new claims, what has not begun is given back, running attempts get the drain time, the rest
is given back without counting an attempt, everything is settled, and only then do leases stop being
extended.
"""

from __future__ import annotations

import asyncio
import os
import socket
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Protocol

from redrive.core.errors import ConfigurationError, StoreError, WorkerFailed
from redrive.core.ports import Source, Upkeep
from redrive.core.records import Document
from redrive.core.retry import RetryPolicy
from redrive.core.settings import FinishedSettings, RetentionSettings, WorkerSettings
from redrive.core.store import Backend, Records
from redrive.engine.execution import Executor
from redrive.engine.handlers import Served
from redrive.engine.ids import new_token
from redrive.engine.keeper import BEAT_S, Keeper
from redrive.engine.ownership import Until
from redrive.engine.runner import Runner, patiently
from redrive.engine.settler import Settler
from redrive.engine.slots import Slots
from redrive.engine.station import Station
from redrive.engine.upkeep import Announcement, Housekeeping
from redrive.telemetry.door import Telemetry
from redrive.telemetry.events import WorkerStarted, WorkerStopped, WorkerStopping


class Workplace(Source, Upkeep, Records, Backend, Protocol):
    """What a worker needs of a store."""


class Worker:
    """Serves queues from one store until `stop` is called."""

    def __init__(
        self,
        store: Workplace,
        served: Sequence[Served],
        telemetry: Telemetry,
        settings: WorkerSettings,
        finished: FinishedSettings,
        *,
        policy: Callable[[str], RetryPolicy],
        retention: RetentionSettings = RetentionSettings(),  # noqa: B008 - immutable
        on_stuck: Callable[[], None] = lambda: None,
        figures: Callable[[], Document] = dict,
    ) -> None:
        if not served:
            raise ConfigurationError("this app has no handler: register one with @app.handler(queue)")
        self.name = f"{socket.gethostname()}-{os.getpid()}-{new_token()[:6]}"
        self._store = store
        self._telemetry = telemetry
        self._settings = settings
        self._slots = Slots(settings.concurrency)
        self._executor = Executor(store.now, telemetry, settings.lease_s)
        self._keeper = Keeper(
            store.twin,
            telemetry,
            lease_s=settings.lease_s,
            stuck_s=max(one.settings.deadline_s for one in served) + settings.lease_s,
            on_lost=self._forfeit,
            on_stuck=on_stuck,
        )
        self._settler = Settler(
            store, telemetry, self._keeper, self._slots, self._outstanding, settings.lease_s
        )
        self._stations = [self._station(one) for one in served]
        self._housekeeping = Housekeeping(
            store, telemetry, policy, finished, retention, settings.lease_s, self.queues
        )
        self._more_figures = figures
        self._announcement = Announcement(store, self.name, self.queues, store.now(), self._figures)
        self._stopped = False
        self._failure: BaseException | None = None
        self._stop: Until | None = None
        self._idle = asyncio.Event()
        self._idlers = 0
        self._runner = Runner(telemetry)

    @property
    def queues(self) -> tuple[str, ...]:
        return tuple(station.served.queue for station in self._stations)

    @property
    def _claims(self) -> list[str]:
        """The names of the loops without which nothing is worked on."""
        return [f"claim {queue}" for queue in self.queues]

    @property
    def ready(self) -> bool:
        """Whether its loops reach the store."""
        return self._runner.healthy

    def stop(self) -> None:
        """Ask for a graceful end; `run` returns after it."""
        self._stopped = True
        if self._stop is not None and not self._stop.done():
            self._stop.set_result(None)

    async def run(self) -> None:
        """Work until stopped; WorkerFailed when no claim has succeeded for `give_up_s` for want of more than
        an answer: whoever supervises the process can then act."""
        described = await patiently("describe", self._store.describe, self._telemetry)
        described.demand()
        self._telemetry.emit(WorkerStarted(self.name, self.queues, described.url, described.durability))
        self._keeper.start()
        claims, settles, listens = (Runner(self._telemetry) for _ in range(3))
        self._runner = claims
        settles.start("settle", self._settler.step)
        settles.start("settle again", self._settler.repeat)
        settles.start("beat", self._beat)
        for name, station in zip(self._claims, self._stations, strict=True):
            claims.start(name, station.step)
        listens.start("wake", self._wake)
        claims.start("reclaim", self._housekeeping.reclaim)
        claims.start("cleanup", self._housekeeping.cleanup)
        claims.start("announce", self._announcement.renew)
        self._stop = Until()
        try:
            if not self._stopped:
                await self._stop
        finally:
            try:
                await self._end(claims, settles, listens)
            except BaseException:
                for runner in (claims, settles, listens):
                    runner.drop()
                raise
        if self._failure is not None:
            raise WorkerFailed(self._settings.give_up_s, self._failure) from self._failure

    async def _end(self, claims: Runner, settles: Runner, listens: Runner) -> None:
        began_s = time.monotonic()
        self._telemetry.emit(WorkerStopping(self.name, self._outstanding(), self._settings.drain_s))
        await listens.cancel()
        claims.halt()
        for station in self._stations:
            station.stop()
        await claims.stop()
        patience_s = max(0.0, self._settings.drain_s - (time.monotonic() - began_s))
        unfinished = await asyncio.gather(*(station.drain(patience_s) for station in self._stations))
        settles.halt()
        self._settler.nudge()
        await settles.stop()
        await self._settler.flush()
        self._executor.close()
        await self._keeper.stop()
        with suppress(StoreError):
            await self._announcement.withdraw()
        self._telemetry.emit(WorkerStopped(self.name, sum(unfinished)))

    def _station(self, served: Served) -> Station:
        station = Station(
            served,
            self._settings,
            self._store,
            self._executor,
            self._settler,
            self._keeper,
            self._slots,
            self._telemetry,
        )
        station.idle = self._set_idle
        return station

    def _set_idle(self, idle: bool) -> None:
        self._idlers += 1 if idle else -1
        if self._idlers:
            self._idle.set()
        else:
            self._idle.clear()

    async def _wake(self) -> float:
        """Listen for new work while a station is idle, once for all of them, and for longer than they sleep:
        they look by themselves when nothing is heard."""
        await self._idle.wait()
        await self._store.wait(self.queues, 2 * self._settings.poll_s)
        for station in self._stations:
            station.nudge()
        return 0.0

    async def _beat(self) -> float:
        self._keeper.beat()
        self._failure = self._failure or self._runner.hopeless(self._claims, self._settings.give_up_s)
        if self._failure is not None:
            self.stop()
        return BEAT_S

    def _figures(self) -> Document:
        """How this process is doing, for whoever looks at all of them."""
        return {
            "running": self._slots.busy,
            "limit": self._slots.count,
            "lagS": self._keeper.take_lag_s(),
            **self._more_figures(),
        }

    def _outstanding(self) -> int:
        """How many attempts are under way or about to be: their settlements are worth waiting for."""
        return sum(station.outstanding for station in self._stations)

    def _forfeit(self, token: str) -> None:
        for station in self._stations:
            station.forfeit(token)
