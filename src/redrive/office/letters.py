"""Dead letters for one actor: found by filter, read one by one, by tenant and age, and written out.

Letters are read in slices, so that a page of large ones is never whole in memory twice; in a list a large
payload is replaced by its size, for masking a page of them would take seconds.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from redrive.core.letters import Account, DeadLetter, as_letter
from redrive.core.lifecycle import State
from redrive.core.ports import PAGE
from redrive.office.audit import Actor, action
from redrive.office.documents.groups import ShapeDocument, shape_document
from redrive.office.documents.letters import (
    LetterPageDocument,
    LookedDocument,
    ShownLetter,
    empty_document,
    letter_document,
    shown_letter,
)
from redrive.office.emptiness import Emptiness, explain_empty
from redrive.office.export import Export, Format
from redrive.office.filters import Filter
from redrive.office.filters.masked import unsearched
from redrive.office.filters.terms import Named, NameField
from redrive.office.index import Found, FoundPage, Freshness, LetterOrder, TimeLimit
from redrive.office.index.discarded import find_discarded
from redrive.office.messages import Messages, NotDead
from redrive.office.operations import Selection
from redrive.office.queues import Queues, queue_term
from redrive.office.shape import Shape, shape
from redrive.office.view import OfficeAnswer, View

if TYPE_CHECKING:
    from redrive.office.office import Office

SLICE = 20
_LISTED_BYTES = 16 * 1024
_COUNTING_S = 0.5


class Exported(NamedTuple):
    """A piece of an export, and how many letters are in it."""

    data: bytes
    letters: int


class Letters:
    """The verbs on dead letters."""

    def __init__(self, office: Office, actor: Actor, view: View, queues: Queues, messages: Messages) -> None:
        self._store = office.store
        self._index = office.index
        self._ttl_ms = office.ttl_ms
        self._actor = actor
        self._view = view
        self._queues = queues
        self._messages = messages

    @property
    def freshness(self) -> Freshness:
        """How the last answer stood to the store."""
        return self._index.freshness

    async def filter(self, text: str = "", queue: str | None = None, tenant: str | None = None) -> Filter:
        """The letters that a text means, of a queue that is named by its or its DLQ's name, of a tenant."""
        asked = self._view.filter(text)
        if queue is None and tenant is None:
            return asked
        narrow = [] if queue is None else [queue_term(await self._queues.named(queue))]
        narrow += [] if tenant is None else [Named(NameField.TENANT, (tenant,))]
        return self._view.filter(str(Filter((*narrow, *asked.terms))))

    async def explain(self, asked: Filter, found: int) -> Emptiness | None:
        """Why a filter finds nothing; None where it found something."""
        return await explain_empty(self._index, asked, found, scope=self._view.scope)

    async def find(
        self,
        text: str = "",
        *,
        queue: str | None = None,
        tenant: str | None = None,
        order: LetterOrder = LetterOrder.OLDEST,
        after: str | None = None,
        limit: int = 50,
        reveal: bool = False,
        whole: bool = False,
        discarded: bool = False,
    ) -> OfficeAnswer[list[DeadLetter], LetterPageDocument]:
        """A page of letters; unless `whole` is asked for, a large payload is replaced by its size.

        `discarded`: those that were discarded and are kept, the latest first.
        """
        self._view.check(reveal=reveal)
        asked = await self.filter(text, queue, tenant)
        if discarded:
            return await self._find_discarded(asked, after, limit, reveal=reveal, whole=whole)
        page = await self._index.find(asked, scope=self._view.scope, after=after, limit=limit, order=order)
        mask = await self._view.mask({"ids": [one.id for one in page.letters]}, reveal=reveal)
        letters: list[DeadLetter] = []
        documents = []
        async for some in self._whole(page.letters):
            shown = some if whole else [_brief(one) for one in some]
            letters += shown
            documents += await asyncio.to_thread(
                lambda batch: [letter_document(one, mask, self._ttl_ms) for one in batch], shown
            )
        looked = page.looked
        elsewhere = page.cursor is not None or after is not None
        empty = None if elsewhere else await self.explain(asked, len(page.letters))
        document = LetterPageDocument(
            letters=documents,
            cursor=page.cursor,
            total=None if after is not None else await self._total(asked, page),
            looked=None if looked is None else LookedDocument(letters=looked.letters, of=looked.of),
            behind=self.freshness.behind,
            notice=unsearched(asked),
            empty=empty_document(empty),
        )
        return OfficeAnswer(letters, document)

    async def _total(self, asked: Filter, first: FoundPage) -> int | None:
        """How many a filter finds; None where that means to look through payloads, or takes too long."""
        if first.cursor is None:
            return len(first.letters)
        if first.looked is not None:
            return None
        try:
            return await self._index.count(asked, scope=self._view.scope, limit_s=_COUNTING_S)
        except TimeLimit:
            return None

    async def _find_discarded(
        self, asked: Filter, after: str | None, limit: int, *, reveal: bool, whole: bool
    ) -> OfficeAnswer[list[DeadLetter], LetterPageDocument]:
        """Slices are looked through until there are enough, or none is left."""
        found: list[DeadLetter] = []
        cursor, as_of = after, self._store.now()
        while True:
            page = await find_discarded(
                self._store,
                asked,
                scope=self._view.scope,
                after=cursor,
                as_of=as_of,
                limit=limit - len(found),
            )
            found += [as_letter(page.accounts[one.id]) for one in page.letters]
            cursor = page.cursor
            if cursor is None or len(found) == limit:
                break
        mask = await self._view.mask({"ids": [one.message.id for one in found]}, reveal=reveal)
        shown = found if whole else [_brief(one) for one in found]
        documents = await asyncio.to_thread(
            lambda: [letter_document(one, mask, self._ttl_ms) for one in shown]
        )
        document = LetterPageDocument(
            letters=documents,
            cursor=cursor,
            total=None,
            looked=None,
            behind=False,
            notice=unsearched(asked),
            empty=None,
        )
        return OfficeAnswer(shown, document)

    async def show(self, letter_id: str, *, reveal: bool = False) -> OfficeAnswer[Account, ShownLetter]:
        """One letter with everything that led there; NoMessage, or NotDead when it is not dead."""
        account = await self._messages.find(letter_id)
        if account.state is not State.DEAD:
            raise NotDead(account)
        mask = await self._view.mask({"ids": [letter_id]}, reveal=reveal)
        why = await self._messages.why(account)
        letter = as_letter(account)
        document = await asyncio.to_thread(shown_letter, letter, mask, self._ttl_ms, why)
        return OfficeAnswer(account, document)

    async def shape(
        self, text: str = "", *, queue: str | None = None, tenant: str | None = None, limit: int = 50
    ) -> OfficeAnswer[Shape, ShapeDocument]:
        """The letters meant, by tenant and age."""
        asked = await self.filter(text, queue, tenant)
        found = await shape(self._index, asked, scope=self._view.scope, limit=limit)
        document = shape_document(
            found,
            behind=self.freshness.behind,
            notice=unsearched(asked),
            empty=empty_document(await self.explain(asked, found.total)),
        )
        return OfficeAnswer(found, document)

    async def export(
        self, selection: Selection, form: Format, *, reveal: bool = False
    ) -> AsyncGenerator[Exported]:
        """The letters of a selection, written piece by piece; the audit has it, broken off or not."""
        subject: dict[str, Any] = {
            "filter": selection.filter,
            "scope": self._view.scope,
            "format": form.value,
            "limit": selection.limit,
            "reveal": reveal,
        }
        if selection.ids:
            subject["ids"] = list(selection.ids)
        asked = await self.filter(selection.filter)
        if not selection.ids:
            await self._index.catch_up()
        written = Export(form, await self._view.mask(subject, reveal=reveal), self._ttl_ms)
        async with action(self._store, self._actor, "export", subject) as current:
            yield Exported(written.head(), 0)
            count = 0
            async for letters in self._chosen(selection, asked):
                yield Exported(await asyncio.to_thread(written.rows, letters), len(letters))
                count += len(letters)
                current.result["letters"] = count

    async def _chosen(self, selection: Selection, asked: Filter) -> AsyncIterator[list[DeadLetter]]:
        """The letters of a selection, oldest first, as they are found."""
        if selection.ids:
            for letter_id in dict.fromkeys(selection.ids):
                account = await self._store.get(letter_id)
                if account is not None and self._is_dead(account):
                    yield [as_letter(account)]
            return
        cursor, left, as_of = None, selection.limit, self._store.now()
        while left is None or left > 0:
            size = PAGE if left is None else min(PAGE, left)
            page = await self._index.find(
                asked, scope=self._view.scope, after=cursor, limit=size, as_of=as_of
            )
            async for letters in self._whole(page.letters):
                yield letters
            left = None if left is None else left - len(page.letters)
            cursor = page.cursor
            if cursor is None:
                return

    async def _whole(self, found: Sequence[Found]) -> AsyncIterator[list[DeadLetter]]:
        """What the index found, slice by slice in its order; what is not dead any more is left out."""
        for begin in range(0, len(found), SLICE):
            some = found[begin : begin + SLICE]
            letters: dict[str, DeadLetter] = {}
            for queue in {one.queue for one in some}:
                ids = [one.id for one in some if one.queue == queue]
                for account in await self._store.accounts(queue, ids):
                    if self._is_dead(account):
                        letters[account.message.id] = as_letter(account)
            yield [letters[one.id] for one in some if one.id in letters]

    def _is_dead(self, account: Account) -> bool:
        return account.state is State.DEAD and self._view.sees(account.message.tenant)


def _brief(letter: DeadLetter) -> DeadLetter:
    size = len(letter.message.body) + len(letter.shared or b"")
    if size <= _LISTED_BYTES:
        return letter
    message = msgspec.structs.replace(letter.message, body=b'{"leftOut":"%d bytes"}' % size)
    return replace(letter, message=message, shared=None)
