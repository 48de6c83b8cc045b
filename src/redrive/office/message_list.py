"""Lists of messages that are no letters: what waits, is scheduled, runs, is done or was removed.

A list has no payload: `show` has it, masked. A page is made of pages of the store, queue after queue; it
looks at a bounded number of them, so it may be short while its cursor says that there is more. Here, too, one
tenant's waiting messages are removed, in pages, as one action in the audit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from redrive.core.errors import InvalidMessage
from redrive.core.lanes import Lane
from redrive.core.letters import Listed, MessagePage, MessagePhase
from redrive.core.ports import PAGE
from redrive.core.totals import MINUTE_MS
from redrive.office.audit import Actor, action
from redrive.office.documents.messages import MessageListDocument, listed_message
from redrive.office.index import CursorError
from redrive.office.ports import LetterStore
from redrive.office.queues import Queues
from redrive.office.tenants import NoTenant, Tenants
from redrive.office.view import OfficeAnswer, View

_CALLS = 50
_DUE_LOOKED = 2_000


@dataclass(frozen=True, slots=True)
class ListedPage:
    """Some messages; `cursor` continues after them."""

    messages: list[Listed]
    cursor: str | None


@dataclass(frozen=True, slots=True)
class Removed:
    """How many waiting messages of a tenant were removed, and how many still wait."""

    tenant: str
    removed: int
    waiting: int


@dataclass(frozen=True, slots=True)
class DueSoon:
    """How many messages become due in each of the next minutes, of the first `looked` that are scheduled."""

    counts: tuple[int, ...]
    looked: int
    complete: bool


class MessageList:
    """The verbs on many messages."""

    def __init__(
        self, store: LetterStore, actor: Actor, view: View, queues: Queues, tenants: Tenants
    ) -> None:
        self._store = store
        self._actor = actor
        self._view = view
        self._queues = queues
        self._tenants = tenants

    async def page(
        self,
        phase: MessagePhase,
        *,
        queue: str | None = None,
        tenant: str | None = None,
        older_than_s: float | None = None,
        after: str | None = None,
        limit: int = 20,
    ) -> OfficeAnswer[ListedPage, MessageListDocument]:
        """Messages in a phase that the actor may see; `older_than_s` counts from when they were accepted."""
        if tenant is not None and not self._view.sees(tenant):
            raise NoTenant(tenant)
        names = await self._queues.known() if queue is None else [await self._queues.named(queue)]
        before_at = None if older_than_s is None else self._store.now() - round(1000 * older_than_s)
        page = await self._page(names, phase, tenant or self._view.scope, before_at, after, limit)
        document = MessageListDocument(
            messages=[listed_message(one) for one in page.messages], cursor=page.cursor
        )
        return OfficeAnswer(page, document)

    async def due_soon(self, queue: str, minutes: int = 30) -> DueSoon:
        """How many scheduled messages of a queue become due in each of the next minutes."""
        name, now = await self._queues.named(queue), self._store.now()
        counts, looked, place = [0] * minutes, 0, None
        while looked < _DUE_LOOKED:
            page = await self._store.messages(
                name, MessagePhase.SCHEDULED, tenant=self._view.scope, after=place, limit=PAGE
            )
            for one in page.messages:
                minute = (one.due_at - now) // MINUTE_MS
                if 0 <= minute < minutes:
                    counts[minute] += 1
            looked, place = looked + len(page.messages), page.cursor
            if place is None:
                break
        return DueSoon(tuple(counts), looked, complete=place is None)

    async def waiting(self, tenant: str, queue: str | None = None) -> list[Lane]:
        """A tenant's lanes in which something waits: what `remove` would empty."""
        named = None if queue is None else await self._queues.named(queue)
        lanes = await self._tenants.show(tenant)
        return [lane for lane in lanes if lane.waiting > 0 and named in (None, lane.queue)]

    async def remove(
        self,
        tenant: str,
        queue: str | None = None,
        *,
        most: int | None = None,
        progress: Callable[[int], None] = lambda _: None,
    ) -> Removed:
        """Remove a tenant's waiting messages, at most `most` of them; running ones and letters stay."""
        lanes, total = await self.waiting(tenant, queue), 0
        subject = {"tenant": tenant, "queue": queue, "queues": [lane.queue for lane in lanes]}
        async with action(self._store, self._actor, "purge", subject) as current:
            for lane in lanes:
                while count := await self._purge(lane, PAGE if most is None else min(PAGE, most - total)):
                    total += count
                    current.result["moved"] = total
                    progress(total)
        left = await self.waiting(tenant, queue)
        return Removed(tenant, total, sum(lane.waiting for lane in left))

    async def _purge(self, lane: Lane, limit: int) -> int:
        if limit <= 0:
            return 0
        return await self._store.purge(lane.queue, actor=self._actor.name, tenant=lane.tenant, limit=limit)

    async def _page(
        self,
        names: list[str],
        phase: MessagePhase,
        tenant: str | None,
        before_at: int | None,
        after: str | None,
        limit: int,
    ) -> ListedPage:
        found: list[Listed] = []
        begun, place = _read_cursor(after)
        line = [name for name in sorted(names) if name >= begun]
        for _ in range(_CALLS):
            if not line or len(found) == limit:
                break
            page = await self._read(line[0], phase, tenant, place, limit - len(found))
            found += [one for one in page.messages if before_at is None or one.enqueued_at <= before_at]
            place = page.cursor
            if place is None:
                line.pop(0)
        return ListedPage(found, f"{line[0]}@{place or ''}" if line else None)

    async def _read(
        self, queue: str, phase: MessagePhase, tenant: str | None, place: str | None, limit: int
    ) -> MessagePage:
        try:
            return await self._store.messages(queue, phase, tenant=tenant, after=place, limit=limit)
        except InvalidMessage:
            raise CursorError from None


def _read_cursor(cursor: str | None) -> tuple[str, str | None]:
    if cursor is None:
        return "", None
    queue, separator, place = cursor.partition("@")
    if not separator:
        raise CursorError
    return queue, place or None
