"""The open stores of an app, one for each event loop that uses it, and when each of them closes.

Openings are counted: the store of a loop closes when the last of its users and its workers has left. A loop
that was closed without that leaves its store behind, which is let go when another loop comes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from redrive.config import Settings, warn_overruled
from redrive.engine.hooks import HooksDuty
from redrive.engine.runner import patiently
from redrive.engine.submit import Submitter
from redrive.engine.totals import TotalsDuty
from redrive.machine.forks import keep, watch
from redrive.telemetry.door import Telemetry
from redrive.telemetry.hooks import HookSink
from redrive.telemetry.totals import TotalsSink
from redrive.wiring import make_store, store_defaults

if TYPE_CHECKING:
    from redrive.core.store import Store
    from redrive.office.index import Index


@dataclass(eq=False, slots=True)
class OpenedApp:
    """What is open for one event loop."""

    store: Store
    submitter: Submitter
    totals: TotalsDuty
    hooks: HooksDuty
    telemetry: Telemetry
    index: Index | None = None

    async def open(self) -> None:
        """Open the store, and begin to hand over what is counted."""
        await self.store.open()
        self.totals.start()
        self.hooks.start()

    async def close(self) -> None:
        """Finish the submits under way, hand over what was counted, and close the store."""
        await self.submitter.close()
        await self.hooks.close()
        await self.totals.close()
        self.telemetry.flush()
        if self.index is not None:
            await self.index.close()
        await self.store.close()


def make_opened(settings: Settings, telemetry: Telemetry, totals: TotalsSink, hooks: HookSink) -> OpenedApp:
    """What is to be opened for an app with these settings and sinks."""
    warn_overruled(settings, store_defaults)
    store = make_store(settings)
    duties = TotalsDuty(store, totals.take), HooksDuty(hooks, telemetry)
    return OpenedApp(store, Submitter(store, telemetry), *duties, telemetry)


@dataclass(eq=False, slots=True)
class _Place:
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    opened: OpenedApp | None = None
    users: int = 0
    workers: int = 0


class Openings:
    """What is open, by event loop. `make` makes what is to be opened for one."""

    def __init__(self, make: Callable[[], OpenedApp]) -> None:
        self._make = make
        self._skew_ms = 0
        self._places: dict[asyncio.AbstractEventLoop, _Place] = {}
        watch(self)

    def forked(self) -> None:
        """In a child: what is open is the parent's; the child opens its own with its first use."""
        keep(self._places)
        self._places = {}

    @property
    def current(self) -> OpenedApp | None:
        """What is open for the running loop; outside of any loop, what was opened last."""
        try:
            place = self._places.get(asyncio.get_running_loop())
        except RuntimeError:
            place = next(reversed(self._places.values()), None)
        return None if place is None else place.opened

    @property
    def any(self) -> bool:
        """Whether anything is open, for any loop."""
        return any(place.opened is not None for place in list(self._places.values()))

    @property
    def skew_ms(self) -> int:
        """How far a test has moved the clock of every store, open or to come."""
        return self._skew_ms

    @skew_ms.setter
    def skew_ms(self, skew_ms: int) -> None:
        self._skew_ms = skew_ms
        for place in list(self._places.values()):
            if place.opened is not None:
                place.opened.store.skew_ms = skew_ms

    @property
    def required(self) -> OpenedApp:
        """What is open for the running loop, or RuntimeError."""
        opened = self.current
        if opened is None:
            raise RuntimeError("the app is not open: use `async with app:` or `await app.open()`")
        return opened

    async def reach(self, telemetry: Telemetry, *, fail_fast: bool) -> None:
        """Open; a store that does not answer is waited for, unless `fail_fast`."""
        await (self.ready() if fail_fast else patiently("open", self.ready, telemetry))

    async def ready(self) -> OpenedApp:
        """Open, if that is not done yet."""
        place = self._place()
        if place.opened is None:
            async with place.lock:
                if place.opened is None:
                    made = self._make()
                    made.store.skew_ms = self._skew_ms
                    await made.open()
                    place.opened = made
        return place.opened

    async def enter(self, *, worker: bool = False) -> OpenedApp:
        """Open, and count one more user or worker."""
        opened, place = await self.ready(), self._place()
        if worker:
            place.workers += 1
        else:
            place.users += 1
        return opened

    def leave(self, *, worker: bool = False) -> OpenedApp | None:
        """Count one user or worker less; what is now to be closed, if that was the last."""
        place = self._place()
        if worker:
            place.workers -= 1
        else:
            place.users = max(0, place.users - 1)
        if place.users or place.workers:
            return None
        del self._places[asyncio.get_running_loop()]
        return place.opened

    def _place(self) -> _Place:
        loop = asyncio.get_running_loop()
        place = self._places.get(loop)
        if place is None:
            self._let_go()
            place = self._places[loop] = _Place()
        return place

    def _let_go(self) -> None:
        """Nobody can close the stores of loops that are closed: they let go by themselves."""
        for loop in [loop for loop in list(self._places) if loop.is_closed()]:
            opened = self._places.pop(loop).opened
            if opened is not None:
                opened.store.abandon()
