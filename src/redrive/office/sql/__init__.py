"""SQL over dead letters, on every store alike (R13): one SELECT, asked of a copy in memory.

The store and the index are never touched: the copy is made first, then the statement is let loose on it,
behind a guard, with limits on time, rows, bytes and memory. Every question is in the audit; who may ask is
the caller's rule.
"""

from __future__ import annotations

import asyncio
import threading

from redrive.core.failure import clip
from redrive.core.ports import Store
from redrive.office.audit import Actor, action
from redrive.office.index import Index
from redrive.office.sql.asking import Question, SqlAnswer, SqlLimits, Value
from redrive.office.sql.copying import Copied, Mask
from redrive.office.sql.guarding import SqlError
from redrive.office.sql.saved import SAVED

__all__ = ["SAVED", "Copied", "Mask", "Sql", "SqlAnswer", "SqlError", "SqlLimits", "Value"]

_AUDITED = 2_000


class Sql:
    """Questions in SQL for one actor; with a scope, only that tenant's letters are in the copy (I13)."""

    def __init__(self, store: Store, index: Index, actor: Actor, scope: str | None = None) -> None:
        self._store = store
        self._index = index
        self._actor = actor
        self._scope = scope

    async def run(self, text: str, *, limits: SqlLimits | None = None, mask: Mask | None = None) -> SqlAnswer:
        """The answer to one SELECT, or SqlError with the place.

        `mask` is applied to each `originalData`; with one, the texts of failures are redacted too.
        """
        subject = {"text": clip(text, _AUDITED), "tenant": self._scope}
        async with action(self._store, self._actor, "sql", subject) as current:
            left = threading.Event()
            address = await self._index.address()
            question = Question(text, address, self._scope, limits or SqlLimits(), mask, left.is_set)
            try:
                answer = await asyncio.to_thread(question.answer)
            finally:
                left.set()
            current.result["rows"] = len(answer.rows)
            return answer
