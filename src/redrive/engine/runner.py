"""One runner for all loops. A loop is a step that works and says how many seconds to sleep.

What a step raises never ends its loop: a store that does not answer is tried again with growing
pauses and told once (and again when it is back); anything else is told and the loop goes on. So
does a loop that is cancelled by somebody who cancels all tasks: it ends when its owner says so.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from redrive.core.errors import StoreError, StoreUnavailable
from redrive.engine.ownership import OwnTask, start_own
from redrive.telemetry.door import Telemetry
from redrive.telemetry.events import LoopFailed, StoreBack, StoreTrouble

Step = Callable[[], Awaitable[float]]
T = TypeVar("T")

_FIRST_PAUSE_S = 0.1
_LONGEST_PAUSE_S = 2.0


@dataclass(frozen=True, slots=True)
class _Hopeless:
    """Since when a loop fails with anything but a store that does not answer, and what it failed with."""

    since_s: float
    error: BaseException


class Runner:
    """Runs loops until told to stop."""

    def __init__(self, telemetry: Telemetry) -> None:
        self._telemetry = telemetry
        self._tasks: list[OwnTask] = []
        self._stopping = asyncio.Event()
        self._dropped = False
        self._failing: dict[str, int] = {}
        self._hopeless: dict[str, _Hopeless] = {}

    @property
    def healthy(self) -> bool:
        """Whether no loop has failed three times in a row."""
        return all(failures < 3 for failures in self._failing.values())

    def hopeless(self, names: Sequence[str], for_s: float) -> BaseException | None:
        """Why all these loops have failed for so long, where that is not a store that does not answer."""
        found = [self._hopeless.get(name) for name in names]
        before_s = time.monotonic() - for_s
        if not all(one is not None and one.since_s < before_s for one in found):
            return None
        return next((one.error for one in found if one is not None), None)

    def start(self, name: str, step: Step) -> None:
        """Run a loop beside the others."""
        self._tasks.append(start_own(self._run(name, step), f"redrive-{name}"))

    def halt(self) -> None:
        """Ask every loop to end after its step."""
        self._stopping.set()

    async def stop(self) -> None:
        """Ask every loop to end after its step, and wait for it; a caller that is cancelled drops them."""
        self.halt()
        try:
            if self._tasks:
                await asyncio.wait(self._tasks)
        except BaseException:
            self.drop()
            raise

    async def end(self, patience_s: float) -> None:
        """Ask every loop to end after its step; what takes longer than `patience_s` ends where it stands."""
        self.halt()
        try:
            if self._tasks:
                await asyncio.wait(self._tasks, timeout=patience_s)
        finally:
            await self.cancel()

    async def cancel(self) -> None:
        """End every loop where it stands: for steps that only listen."""
        self.drop()
        await self.stop()

    def drop(self) -> None:
        """End every loop where it stands, without waiting for it."""
        self._dropped = True
        for task in self._tasks:
            task.end()

    async def _run(self, name: str, step: Step) -> None:
        while not self._stopping.is_set():
            pause_s = await self._attempt(name, step)
            if pause_s > 0:
                await self._sleep(pause_s)

    async def _attempt(self, name: str, step: Step) -> float:
        try:
            pause_s = await step()
        except StoreError as error:
            failures = self._failed(name, error)
            if failures in (1, 3) or failures % 20 == 0:
                self._telemetry.emit(StoreTrouble(name, str(error), failures))
            return _pause_s(failures)
        except asyncio.CancelledError:
            if self._dropped:
                raise
            return _FIRST_PAUSE_S
        except BaseException as error:  # noqa: BLE001 - a bug in one step must not end its loop
            self._telemetry.emit(LoopFailed(name, error))
            return _pause_s(self._failed(name, error))
        if self._failing:
            failures = self._failing.pop(name, 0)
            self._hopeless.pop(name, None)
            if failures:
                self._telemetry.emit(StoreBack(name, failures))
        return pause_s

    def _failed(self, name: str, error: BaseException) -> int:
        if isinstance(error, StoreUnavailable):
            self._hopeless.pop(name, None)
        else:
            self._hopeless.setdefault(name, _Hopeless(time.monotonic(), error))
        failures = self._failing[name] = self._failing.get(name, 0) + 1
        return failures

    async def _sleep(self, pause_s: float) -> None:
        try:
            async with asyncio.timeout(pause_s):
                await self._stopping.wait()
        except TimeoutError:
            return
        except asyncio.CancelledError:
            if self._dropped:
                raise


def _pause_s(failures: int) -> float:
    grown = min(_LONGEST_PAUSE_S, _FIRST_PAUSE_S * 2.0 ** min(failures - 1, 10))
    return grown * random.uniform(0.5, 1.0)  # noqa: S311 - spreads load, keeps no secret


async def patiently(name: str, call: Callable[[], Awaitable[T]], telemetry: Telemetry) -> T:
    """What a call answers, however long its store does not; told once, and once when it is back."""
    failures = 0
    while True:
        try:
            answer = await call()
        except StoreUnavailable as error:
            failures += 1
            if failures == 1:
                telemetry.emit(StoreTrouble(name, str(error), failures))
            await asyncio.sleep(_pause_s(failures))
        else:
            if failures:
                telemetry.emit(StoreBack(name, failures))
            return answer
