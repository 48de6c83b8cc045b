"""One index finds: search, counts, groups, shape and SQL, on two relations, `letters` and `letter_bodies`.

The SQLite store has them itself and is read where it is; any other store feeds a disposable file of ours. An
index may be behind: every move is compare-and-set in the store, so a stale answer can only cause `skipped`.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import apsw

from redrive.core.errors import StoreError
from redrive.core.store import OwnIndex
from redrive.core.verdict import Reason
from redrive.office.filters import Condition, Filter, compile_filter
from redrive.office.index import find as finding
from redrive.office.index.cursors import Cursor, CursorError, LetterOrder
from redrive.office.index.feed import Fed
from redrive.office.index.find import Found, FoundPage, Looked, TenantPart
from redrive.office.index.read import TIME_LIMIT_S, TimeLimit, read
from redrive.office.index.sources import Freshness, IndexSource, Own
from redrive.office.ports import Searchable

__all__ = [
    "CursorError",
    "Found",
    "FoundPage",
    "Freshness",
    "Index",
    "LetterOrder",
    "Looked",
    "TenantPart",
    "TimeLimit",
]

BUDGET_S = 0.3
CATCH_UP_S = 2.0

T = TypeVar("T")


class Index:
    """The dead letters of an open store, to be searched. `scope`: the tenant the asker is bound to.

    `folder` is where a disposable index may be kept, under `name`; without one it lives in memory.
    """

    def __init__(self, store: Searchable, folder: Path | None = None, name: str = "") -> None:
        self._store = store
        fed_from = store.index
        self._source: IndexSource = (
            Own(fed_from) if isinstance(fed_from, OwnIndex) else Fed(store, fed_from, folder, name)
        )

    @property
    def freshness(self) -> Freshness:
        """How the last answer stood to the store."""
        return self._source.freshness

    async def catch_up(self) -> Freshness:
        """Take in all that happened in the store; every question does a little of it."""
        await self._source.ready(None)
        return self._source.freshness

    async def close(self) -> None:
        """Let go of the disposable index; its file stays where it is for the next time."""
        await self._source.close()

    async def find(
        self,
        asked: Filter,
        *,
        scope: str | None = None,
        after: str | None = None,
        limit: int = 50,
        order: LetterOrder = LetterOrder.OLDEST,
        budget_s: float = BUDGET_S,
        as_of: int | None = None,
    ) -> FoundPage:
        """A page of letters; on payload or text what `budget_s` finds, and how far it looked.

        `as_of`: the instant that ages are counted from, so that a long search means the same to its end.
        """
        cursor = Cursor.start(order) if after is None else Cursor.parse(after, order)
        condition = compile_filter(asked, now=self.now() if as_of is None else as_of, scope=scope)
        return await self.read(lambda db: finding.find(db, condition, cursor, limit, budget_s))

    async def count(self, asked: Filter, *, scope: str | None = None, limit_s: float = TIME_LIMIT_S) -> int:
        """How many letters are meant, all of them looked at."""
        condition = self.compile(asked, scope)
        return await self.read(lambda db: finding.count(db, condition), limit_s)

    async def count_reason(self, reason: Reason, limit_s: float = TIME_LIMIT_S) -> int:
        """How many letters of all tenants have this reason, whatever their failures say."""
        return await self.read(lambda db: finding.count_reason(db, reason), limit_s)

    async def split(self, asked: Filter, *, scope: str | None = None) -> list[TenantPart]:
        """The letters meant, by tenant and reason, the most first."""
        condition = self.compile(asked, scope)
        return await self.read(lambda db: finding.split(db, condition))

    def now(self) -> int:
        """The store's clock."""
        return self._store.now()

    def compile(self, asked: Filter, scope: str | None) -> Condition:
        """The filter as a condition at this instant of the store."""
        return compile_filter(asked, now=self.now(), scope=scope)

    async def read(self, work: Callable[[apsw.Connection], T], limit_s: float = TIME_LIMIT_S) -> T:
        """Catch up as far as a question may wait for it, then read."""
        try:
            return await read(await self.address(), work, limit_s)
        except StoreError as error:
            if not await self._source.mend(error):
                raise
        return await read(await self.address(), work, limit_s)

    async def address(self) -> str:
        """Where the letters are, for reading only, caught up as far as a question may wait for it."""
        return await self._source.ready(CATCH_UP_S)
