"""An app on a SQLite file of its own, a running worker, and the events it told."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import uvloop

from redrive import Redrive
from redrive.telemetry.events import Event
from redrive.wiring import load

MakeApp = Callable[..., Redrive]
LoopFactory = Callable[[], asyncio.AbstractEventLoop]

ON_BOTH_LOOPS = ("test_shared_task", "test_cancelling", "test_worker")
"""What leans on how tasks, contexts and cancellation work: it holds on uvloop too."""


@pytest.hookimpl(optionalhook=True)
def pytest_asyncio_loop_factories(item: pytest.Item) -> dict[str, LoopFactory]:
    factories: dict[str, LoopFactory] = {"asyncio": asyncio.new_event_loop}
    if item.path.stem in ON_BOTH_LOOPS:
        factories["uvloop"] = uvloop.new_event_loop
    return factories


class Events:
    """What an app told, with a way to wait for the n-th of a kind."""

    def __init__(self, app: Redrive) -> None:
        self.told: list[Event] = []
        self._changed = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        app.telemetry.add(self._add)

    def _add(self, event: Event) -> None:
        """Called from the keeper's thread too."""
        self.told.append(event)
        self._loop.call_soon_threadsafe(self._changed.set)

    def of(self, kind: type[Event]) -> list[Event]:
        return [event for event in self.told if isinstance(event, kind)]

    async def wait_for(self, kind: type[Event], count: int = 1) -> list[Event]:
        async with asyncio.timeout(30):
            while len(found := self.of(kind)) < count:
                await self._changed.wait()
                self._changed.clear()
        return found


@pytest.fixture
def make_app(tmp_path: Path) -> MakeApp:
    """Apps on one file; keywords are flags as the command line would give them."""

    def make(**flags: object) -> Redrive:
        given = {"store": f"sqlite:///{tmp_path}/redrive.db", "profile": "development"} | flags
        return Redrive(settings=load(given, environ={}, folder=tmp_path))

    return make


@pytest.fixture
async def app(make_app: MakeApp) -> AsyncIterator[Redrive]:
    async with make_app() as opened:
        yield opened


@pytest.fixture(params=["sqlite", "redis"])
async def each_app(
    request: pytest.FixtureRequest, make_app: MakeApp, tmp_path: Path
) -> AsyncIterator[Redrive]:
    """An app on every store in turn."""
    flags: dict[str, object] = {}
    if request.param == "redis":
        flags["store"] = f"{request.getfixturevalue('redis_url')}?prefix=engine:{uuid.uuid4().hex[:12]}"
    async with make_app(**flags) as opened:
        yield opened


@asynccontextmanager
async def working(app: Redrive, *, survives: bool = False) -> AsyncIterator[Events]:
    """The app's worker runs while inside and ends gracefully after.

    `survives`: whatever happened inside, it must still run then. The test's own task is hidden from handlers
    that cancel all tasks.
    """
    events = Events(app)
    if survives:
        asyncio.tasks._unregister_task(asyncio.current_task())  # type: ignore[attr-defined]
    task = asyncio.create_task(app.run(signals=False))
    try:
        yield events
        assert not (survives and task.done())
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
