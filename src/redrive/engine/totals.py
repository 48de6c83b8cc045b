"""Hands what this process counted to its store, about once a second and at the end.

It never stands in the way of the work: a store that does not answer, or has no room, is asked again with the
next turn, under the same number, so that nothing counts twice; what happens meanwhile is added up in memory.
Known weakness: a process that is killed loses what it counted since the last turn.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from redrive.core.errors import StoreError
from redrive.core.totals import Total, TotalsBatch
from redrive.engine.ids import new_token
from redrive.engine.ownership import OwnTask, start_own

if TYPE_CHECKING:
    from redrive.core.store import Totals

_TURN_S = 1.0
_PATIENCE_S = 5.0
_LAST_PATIENCE_S = 2.0
_log = logging.getLogger("redrive")


class TotalsDuty:
    """The totals of one store, from one event loop; `take` is what was counted since it was last called."""

    def __init__(self, store: Totals, take: Callable[[], tuple[Total, ...]]) -> None:
        self._store = store
        self._take = take
        self._source = new_token()
        self._number = 0
        self._unanswered: TotalsBatch | None = None
        self._task: OwnTask | None = None
        self._failed = False

    def start(self) -> None:
        """Begin."""
        self._task = start_own(self._run(), "redrive-totals")

    async def close(self) -> None:
        """Hand over what is left, if the store takes it soon."""
        if self._task is not None:
            self._task.end()
            await asyncio.wait({self._task})

    async def _run(self) -> None:
        try:
            while True:
                await asyncio.sleep(_TURN_S)
                await self._turn(_PATIENCE_S)
        finally:
            await self._turn(_LAST_PATIENCE_S)

    async def _turn(self, patience_s: float) -> None:
        try:
            with suppress(StoreError, TimeoutError):
                async with asyncio.timeout(patience_s):
                    await self.flush()
        except Exception:  # noqa: BLE001 - whatever it is, only figures are late
            if not self._failed:
                _log.exception("what was counted could not be stored; the work goes on")
            self._failed = True

    async def flush(self) -> None:
        """Hand over what was not yet taken, and what was counted since."""
        if self._unanswered is not None:
            await self._add(self._unanswered)
        if totals := self._take():
            self._number += 1
            self._unanswered = TotalsBatch(self._source, self._number, totals)
            await self._add(self._unanswered)

    async def _add(self, batch: TotalsBatch) -> None:
        await self._store.add_totals(batch)
        self._unanswered = None
