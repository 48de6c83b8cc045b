"""Which letters a selection means, page by page, oldest first, and which of them are left out.

A letter whose own short time to live has passed (a one-time code) is counted and left out unless asked for.
What died after the question was asked is left out as well: it may be the same letter coming back, and nobody
has seen it counted. An order that carries the instant of its preview means what was dead then.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
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
class AskedAt:
    """When a question was asked: ages count from `at`, and what died after `until` is not meant."""

    at: int
    until: int

    @classmethod
    def of(cls, selection: Selection, now: int) -> AskedAt:
        """That of its preview, where the selection has been previewed; otherwise it is asked now."""
        latest = now + _CLOCKS_MS
        if selection.as_of is None:
            return cls(now, latest)
        return cls(min(selection.as_of, now), min(selection.as_of, latest))


@dataclass(frozen=True, slots=True)
class Chosen:
    """One page of a selection: the letters taken, how many were left out and why, and where it goes on.

    `latest`: when the last of them died or was discarded, by the store's clock, which may be ahead of ours.
    """

    taken: tuple[Found, ...]
    cursor: str | None
    expired: int = 0
    gone: int = 0
    missing: int = 0
    latest: int = 0

    @property
    def chunk(self) -> Chunk:
        letters = [(one.queue, LetterKey(one.id, one.generation)) for one in self.taken]
        return Chunk(letters, self.cursor, self.expired, self.gone, self.missing)


class Chooser:
    """Turns a selection into pages of letters. `now` is when the operation was asked for."""

    def __init__(self, office: Office) -> None:
        self._store = office.store
        self._index = office.index
        self._policy = office.policy

    async def pages(self, order: Order, now: int) -> AsyncIterator[Chosen]:
        """Every page of what an order means, up to its limit."""
        cursor, taken = None, 0
        while True:
            page = await self.page(order, now, cursor, taken)
            yield page
            taken += len(page.taken)
            cursor = page.cursor
            if cursor is None:
                return

    async def page(self, order: Order, now: int, cursor: str | None, taken: int) -> Chosen:
        """The page after a cursor, when `taken` letters were taken before it."""
        chosen = await self._chosen(order, AskedAt.of(order.selection, now), cursor)
        kept = [one for one in chosen.taken if order.expired or not self._has_expired(one, now)]
        room = _room(order.selection, taken)
        full = room is not None and len(kept) >= room and not order.selection.ids
        return replace(
            chosen,
            taken=tuple(kept[:room]),
            cursor=None if full else chosen.cursor,
            expired=len(chosen.taken) - len(kept),
        )

    async def _chosen(self, order: Order, asked: AskedAt, cursor: str | None) -> Chosen:
        if order.selection.ids:
            return await self._named(order, asked, cursor)
        if order.kind is OperationKind.UNDISCARD:
            return await self._discarded(order.selection, asked, cursor)
        return await self._found(order.selection, asked, cursor)

    async def _discarded(self, selection: Selection, asked: AskedAt, cursor: str | None) -> Chosen:
        meant = parse(selection.filter, asked.at)
        page = await find_discarded(
            self._store, meant, scope=selection.scope, after=cursor, as_of=asked.at, limit=CHUNK
        )
        taken = [one for one in page.letters if _left_at(page.accounts[one.id]) <= asked.until]
        latest = max((_left_at(page.accounts[one.id]) for one in taken), default=0)
        return Chosen(tuple(taken), page.cursor, latest=latest)

    async def _found(self, selection: Selection, asked: AskedAt, cursor: str | None) -> Chosen:
        """The oldest come first: behind one that died too late there is nothing to take."""
        if cursor is None:
            await self._catch_up()
        page = await self._index.find(
            parse(selection.filter, asked.at),
            scope=selection.scope,
            after=cursor,
            limit=CHUNK,
            as_of=asked.at,
        )
        taken = tuple(one for one in page.letters if one.died_at <= asked.until)
        cursor = page.cursor if len(taken) == len(page.letters) else None
        return Chosen(taken, cursor, latest=taken[-1].died_at if taken else 0)

    async def _catch_up(self) -> None:
        """Whatever was dead when the question was asked is to be found."""
        problem = (await self._index.catch_up()).problem
        if problem is not None:
            raise StoreUnavailable(f"the letters cannot be counted: {problem}")

    async def _named(self, order: Order, asked: AskedAt, cursor: str | None) -> Chosen:
        selection, begin = order.selection, int(cursor or 0)
        ids = list(dict.fromkeys(selection.ids))
        taken: list[Found] = []
        gone = missing = latest = 0
        for name in ids[begin : begin + CHUNK]:
            account = await self._store.get(name)
            if account is None or selection.scope not in (None, account.message.tenant):
                missing += 1
            elif (found := _meant(account, order, asked)) is None:
                gone += 1
            else:
                taken.append(found)
                latest = max(latest, _left_at(account) or found.died_at)
        end = begin + CHUNK
        return Chosen(tuple(taken), str(end) if end < len(ids) else None, 0, gone, missing, latest)

    def _has_expired(self, one: Found, now: int) -> bool:
        """Only a time to live of its own counts: a queue's usual one is renewed by a re-drive."""
        own = one.ttl_s < self._policy(one.queue).ttl_s
        return own and one.enqueued_at + one.ttl_s * 1000 < now


def _room(selection: Selection, taken: int) -> int | None:
    """How many more may be taken; None without a bound."""
    bounds = [most for most in (selection.limit, selection.counted) if most is not None]
    return max(0, min(bounds) - taken) if bounds else None


def _meant(account: Account, order: Order, asked: AskedAt) -> Found | None:
    """A named letter that was dead, or discarded where that is undone; by the death named, if any."""
    message, generation = account.message, account.progress.generation
    if account.died_at is None or account.reason is None:
        return None
    if order.selection.generation not in (None, generation) or not _is_due(account, order.kind, asked):
        return None
    return Found(
        message.queue,
        message.id,
        generation,
        message.tenant,
        account.reason.value,
        account.died_at,
        message.enqueued_at,
        message.ttl_s,
        (account.failures[-1].code or "") if account.failures else "",
    )


def _is_due(account: Account, kind: OperationKind, asked: AskedAt) -> bool:
    if kind is OperationKind.UNDISCARD:
        discarded = account.removal is not None and account.removal.move is Move.DISCARD
        return discarded and _left_at(account) <= asked.until
    return account.state is State.DEAD and (account.died_at or 0) <= asked.until


def _left_at(account: Account) -> int:
    """When it was removed."""
    return 0 if account.removal is None else account.removal.at
