"""Which letters a selection means, page by page, oldest first, and which of them are left out.

A letter whose own short time to live has passed (a one-time code) is counted and left out unless asked for.
What died after the question was asked is left out as well: it may be the same letter coming back.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from redrive.core.errors import StoreUnavailable
from redrive.core.letters import Account, LetterKey
from redrive.core.lifecycle import Move, State
from redrive.core.retry import RetryPolicy
from redrive.office.filters import parse
from redrive.office.index import Found
from redrive.office.index.discarded import find_discarded
from redrive.office.operations.operation import CHUNK, OperationKind, Order, Selection
from redrive.office.operations.records import Chunk

if TYPE_CHECKING:
    from redrive.office.office import Office

Policy = Callable[[str], RetryPolicy]

# The instant comes from the clock as known here; the store's own may be ahead of it.
_CLOCKS_MS = 1_000


@dataclass(frozen=True, slots=True)
class Chosen:
    """One page of a selection: the letters taken, how many were left out and why, and where it goes on."""

    taken: tuple[Found, ...]
    cursor: str | None
    expired: int = 0
    gone: int = 0
    missing: int = 0

    @property
    def chunk(self) -> Chunk:
        letters = [(one.queue, LetterKey(one.id, one.generation)) for one in self.taken]
        return Chunk(letters, self.cursor, self.expired, self.gone, self.missing)


class Chooser:
    """Turns a selection into pages of letters, as of one instant."""

    def __init__(self, office: Office) -> None:
        self._store = office.store
        self._index = office.index
        self._policy = office.policy

    async def pages(self, order: Order, as_of: int) -> AsyncIterator[Chosen]:
        """Every page of what an order means, up to its limit."""
        cursor, taken = None, 0
        while True:
            page = await self.page(order, as_of, cursor, taken)
            yield page
            taken += len(page.taken)
            cursor = page.cursor
            if cursor is None:
                return

    async def page(self, order: Order, as_of: int, cursor: str | None, taken: int) -> Chosen:
        """The page after a cursor, when `taken` letters were taken before it."""
        selection = order.selection
        chosen = await self._chosen(order, as_of, cursor)
        alive = [one for one in chosen.taken if one.died_at <= as_of + _CLOCKS_MS]
        kept = [one for one in alive if order.expired or not self._has_expired(one, as_of)]
        room = len(kept) if selection.limit is None else selection.limit - taken
        ends = len(kept) >= room if selection.limit is not None else False
        ends = ends or (not selection.ids and len(alive) < len(chosen.taken))
        return Chosen(
            tuple(kept[:room]),
            None if ends else chosen.cursor,
            len(alive) - len(kept),
            chosen.gone,
            chosen.missing,
        )

    async def _chosen(self, order: Order, as_of: int, cursor: str | None) -> Chosen:
        if order.selection.ids:
            return await self._named(order, cursor)
        if order.kind is OperationKind.UNDISCARD:
            return await self._discarded(order.selection, as_of, cursor)
        return await self._found(order.selection, as_of, cursor)

    async def _discarded(self, selection: Selection, as_of: int, cursor: str | None) -> Chosen:
        asked = parse(selection.filter, as_of)
        page = await find_discarded(
            self._store, asked, scope=selection.scope, after=cursor, as_of=as_of, limit=CHUNK
        )
        return Chosen(page.letters, page.cursor)

    async def _found(self, selection: Selection, as_of: int, cursor: str | None) -> Chosen:
        if cursor is None:
            await self._catch_up()
        page = await self._index.find(
            parse(selection.filter, as_of), scope=selection.scope, after=cursor, limit=CHUNK, as_of=as_of
        )
        return Chosen(page.letters, page.cursor)

    async def _catch_up(self) -> None:
        """Whatever was dead when the question was asked is to be found."""
        problem = (await self._index.catch_up()).problem
        if problem is not None:
            raise StoreUnavailable(f"the letters cannot be told: {problem}")

    async def _named(self, order: Order, cursor: str | None) -> Chosen:
        selection, begin = order.selection, int(cursor or 0)
        ids = list(dict.fromkeys(selection.ids))
        taken: list[Found] = []
        gone = missing = 0
        for name in ids[begin : begin + CHUNK]:
            account = await self._store.get(name)
            if account is None or selection.scope not in (None, account.message.tenant):
                missing += 1
            elif account.died_at is None or account.reason is None or not _is_meant(account, order):
                gone += 1
            else:
                message = account.message
                taken.append(
                    Found(
                        message.queue,
                        message.id,
                        account.progress.generation,
                        message.tenant,
                        account.reason.value,
                        account.died_at,
                        message.enqueued_at,
                        message.ttl_s,
                        (account.failures[-1].code or "") if account.failures else "",
                    )
                )
        end = begin + CHUNK
        return Chosen(tuple(taken), str(end) if end < len(ids) else None, 0, gone, missing)

    def _has_expired(self, one: Found, now: int) -> bool:
        """Only a time to live of its own counts: a queue's usual one is renewed by a re-drive."""
        own = one.ttl_s < self._policy(one.queue).ttl_s
        return own and one.enqueued_at + one.ttl_s * 1000 < now


def _is_meant(account: Account, order: Order) -> bool:
    """Whether it is dead, or discarded where that is undone, and by the death that was named, if any."""
    if order.selection.generation not in (None, account.progress.generation):
        return False
    if order.kind is OperationKind.UNDISCARD:
        return account.removal is not None and account.removal.move is Move.DISCARD
    return account.state is State.DEAD
