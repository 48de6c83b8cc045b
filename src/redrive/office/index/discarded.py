"""Letters that were discarded and are kept, by the same filters as dead ones, the latest first.

No index holds them: a page of a queue's goes through one in memory, which is then let go. So a page may be
short or empty and still have a cursor, and a search looks at every discarded letter.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass

from redrive.core.letters import Account, Change, ChangePage, MessagePhase, Removal, as_letter
from redrive.core.lifecycle import Move
from redrive.core.ports import PAGE
from redrive.office.filters import Condition, Filter, compile_filter
from redrive.office.index.cursors import Cursor, CursorError, LetterOrder
from redrive.office.index.disposable import Disposable
from redrive.office.index.find import Found, find
from redrive.office.index.read import TIME_LIMIT_S, read
from redrive.office.ports import LetterStore


@dataclass(frozen=True, slots=True)
class DiscardedPage:
    """What was found, each with its account; `cursor` goes on after them, None at the end."""

    letters: tuple[Found, ...]
    accounts: dict[str, Account]
    cursor: str | None


async def find_discarded(
    store: LetterStore, asked: Filter, *, scope: str | None, after: str | None, as_of: int, limit: int = PAGE
) -> DiscardedPage:
    """A page of the discarded letters that a filter means."""
    queues = await _queues(store, scope)
    queue, place = (queues[0] if queues else "", None) if after is None else _read_cursor(after)
    if queue not in queues:
        return DiscardedPage((), {}, None)
    page = await store.messages(queue, MessagePhase.REMOVED, tenant=scope, after=place, limit=limit)
    accounts = await store.accounts(queue, [one.id for one in page.messages if _is_discarded(one.removal)])
    kept = [one for one in accounts if _is_discarded(one.removal)]
    condition = compile_filter(asked, now=as_of, scope=scope)
    found = await _matching(queue, kept, condition)
    cursor = _next(queues, queue, page.cursor)
    return DiscardedPage(found, {one.message.id: one for one in kept}, cursor)


async def _queues(store: LetterStore, scope: str | None) -> list[str]:
    """Those to look through: a cursor names one of them, so none that a bound asker does not know."""
    names = sorted(await store.queue_names())
    return [one for one in names if scope is None or await store.lane(one, scope) is not None]


def _is_discarded(removal: Removal | None) -> bool:
    return removal is not None and removal.move is Move.DISCARD


async def _matching(queue: str, accounts: Sequence[Account], condition: Condition) -> tuple[Found, ...]:
    if not accounts:
        return ()
    index = Disposable(None, "")
    try:
        changes = tuple(Change(one.message.id, as_letter(one)) for one in accounts)
        await asyncio.to_thread(_fill, index, queue, changes)
        start = Cursor.start(LetterOrder.OLDEST)
        page = await read(
            index.address,
            lambda db: find(db, condition, start, len(accounts), TIME_LIMIT_S),
            TIME_LIMIT_S,
        )
    finally:
        index.close()
    order = {one.message.id: number for number, one in enumerate(accounts)}
    return tuple(sorted(page.letters, key=lambda one: order[one.id]))


def _fill(index: Disposable, queue: str, changes: tuple[Change, ...]) -> None:
    filling = index.open()
    try:
        filling.apply(queue, 0, ChangePage(changes, 1))
    finally:
        filling.close()


def _next(queues: Sequence[str], queue: str, place: str | None) -> str | None:
    if place is not None:
        return json.dumps([queue, place])
    later = queues[queues.index(queue) + 1 :]
    return json.dumps([later[0], None]) if later else None


def _read_cursor(text: str) -> tuple[str, str | None]:
    try:
        queue, place = json.loads(text)
        return str(queue), None if place is None else str(place)
    except (ValueError, TypeError):
        raise CursorError from None
