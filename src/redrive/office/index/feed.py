"""Keeps a disposable index in step with a store that tells its changes, queue by queue.

Each question takes in what happened since the last one, within a time. Where the store does not answer, the
question is answered from what is known, and `freshness` says how old that is. SQLite works in a thread.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TypeVar

import apsw

from redrive.core.errors import StoreUnavailable
from redrive.core.store import Feed
from redrive.office.index.disposable import Disposable, Filling, is_damage
from redrive.office.index.read import translate
from redrive.office.index.sources import Freshness
from redrive.office.ports import Searchable

PAGE = 1_000
_GRACE_S = 1.0
_NOTE_MS = 1_000

T = TypeVar("T")


class Fed:
    """A disposable index and the feed that fills it."""

    def __init__(self, store: Searchable, feed: Feed, folder: Path | None, name: str) -> None:
        self._store = store
        self._feed = feed
        self._disposable = Disposable(folder, name)
        self._catching_up = asyncio.Lock()
        self._thread = ThreadPoolExecutor(1, "redrive-index")
        self._noted_at = 0
        self.freshness = Freshness(behind=True)

    async def ready(self, budget_s: float | None) -> str:
        async with self._catching_up:
            try:
                self.freshness = await self._refresh(budget_s)
            except apsw.Error as error:
                if not await self.mend(error):
                    raise translate(error) from error
                self.freshness = await self._refresh(budget_s)
        return self._disposable.address

    async def mend(self, error: BaseException) -> bool:
        if not is_damage(error):
            return False
        await self._work(self._disposable.empty)
        return True

    async def close(self) -> None:
        await self._work(self._disposable.close)
        self._thread.shutdown(wait=False)

    async def _refresh(self, budget_s: float | None) -> Freshness:
        """Catch up; when the store does not answer, how old what is known is."""
        filling = await self._work(self._disposable.open)
        try:
            return await self._try_refresh(filling, budget_s)
        finally:
            await self._work(filling.close)

    async def _try_refresh(self, filling: Filling, budget_s: float | None) -> Freshness:
        try:
            async with asyncio.timeout(None if budget_s is None else budget_s + _GRACE_S):
                whole = await self._catch_up(filling, budget_s)
        except (StoreUnavailable, TimeoutError, apsw.BusyError) as error:
            stale_s = await self._age_s(filling)
            if stale_s is None:
                raise StoreUnavailable(
                    f"the dead letters are not known yet, and the store does not answer ({error}): try again"
                ) from error
            return Freshness(stale_s, behind=True, problem=str(error) or "the store does not answer")
        return Freshness() if whole else Freshness(await self._age_s(filling) or 0.0, behind=True)

    async def _catch_up(self, filling: Filling, budget_s: float | None) -> bool:
        """Whether everything that had happened when this began is now known."""
        ends_s = None if budget_s is None else time.monotonic() + budget_s
        began_at = self._store.now()
        positions = await self._work(filling.positions)
        for queue in sorted({*positions, *await self._store.queue_names()}):
            if not await self._take_in(filling, queue, positions.get(queue, 0), ends_s):
                return False
        if began_at - self._noted_at >= _NOTE_MS:
            await self._work(filling.set_caught_up, began_at)
            self._noted_at = began_at
        return True

    async def _take_in(self, filling: Filling, queue: str, position: int, ends_s: float | None) -> bool:
        while ends_s is None or time.monotonic() < ends_s:
            page = await self._feed.changes(queue, after=position, limit=PAGE)
            if page.position == position and not page.changes and not page.reset:
                return True
            position = await self._work(filling.apply, queue, position, page)
            if not page.more and position == page.position:
                return True
        return False

    async def _work(self, step: Callable[..., T], *arguments: object) -> T:
        """A step in the one thread that writes: what was cancelled here ends there before the next begins."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, partial(step, *arguments))

    async def _age_s(self, filling: Filling) -> float | None:
        at = await self._work(filling.caught_up_at)
        return None if at is None else max(0, self._store.now() - at) / 1000
