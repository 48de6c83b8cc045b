"""SQL over dead letters, on every store alike: one SELECT, asked of a copy in memory.

The store and the index are never touched: the copy is made first, then the statement is let loose on it,
behind a guard, with limits on time, rows, bytes and memory. Every question is in the audit; who may ask is
the caller's rule.
"""

from __future__ import annotations

import asyncio
import json
import threading
from typing import TYPE_CHECKING

from redrive.core.failure import clip
from redrive.office.audit import Actor, action
from redrive.office.sql.copy import Copied
from redrive.office.sql.guard import SqlError
from redrive.office.sql.question import Question, SqlAnswer, SqlLimits, Value
from redrive.office.sql.saved import SAVED
from redrive.office.view import View

if TYPE_CHECKING:
    from redrive.office.office import Office

__all__ = ["SAVED", "Copied", "Sql", "SqlAnswer", "SqlError", "SqlLimits", "Value"]

_AUDITED = 2_000


class Sql:
    """Questions in SQL; for who is bound to a tenant, only that tenant's letters are in the copy."""

    def __init__(self, office: Office, actor: Actor, view: View) -> None:
        self._store = office.store
        self._index = office.index
        self._ttl_ms = office.ttl_ms
        self._actor = actor
        self._view = view

    async def ask(self, text: str, *, reveal: bool = False, limits: SqlLimits | None = None) -> SqlAnswer:
        """The answer to one SELECT, or SqlError with the place.

        Unless revealed, each `originalData` in the copy is masked, and the texts of failures are redacted.
        """
        shown = clip(text, _AUDITED)
        mask = await self._view.mask({"sql": shown}, reveal=reveal)
        subject = {"text": shown, "tenant": self._view.scope}
        async with action(self._store, self._actor, "sql", subject) as current:
            left = threading.Event()
            question = Question(
                text,
                await self._index.address(),
                self._view.scope,
                limits or SqlLimits(),
                None if reveal else lambda kept: json.dumps(mask.payload(json.loads(kept))),
                self._ttl_ms,
                left.is_set,
            )
            try:
                answer = await asyncio.to_thread(question.answer)
            finally:
                left.set()
            current.result["rows"] = len(answer.rows)
            return answer
