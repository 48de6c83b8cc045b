"""Dead letters for people: pages of them, and the short way to re-drive or discard some (R12).

Bulk verbs are operations (`office.operations`): here they are started and conducted to their end in one call,
for callers that want no canary and no rate.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from redrive.core.letters import DeadLetter, as_letter
from redrive.core.ports import Store
from redrive.core.settings import OfficeSettings
from redrive.office import operations as bulk
from redrive.office.audit import Actor
from redrive.office.index import Index
from redrive.office.operations.finding import Policy

__all__ = ["Letters", "Progress", "Selection", "Tally", "as_letter"]

Progress = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class Selection:
    """Which letters: these ids, or those of a queue (None: of all), at most `limit`."""

    ids: tuple[str, ...] = ()
    queue: str | None = None
    limit: int | None = None


@dataclass(slots=True)
class Tally:
    """What a verb did: moved, skipped (no longer dead), stale (own time to live passed), not found."""

    moved: int = 0
    skipped: int = 0
    stale: int = 0
    missing: int = 0


class Letters:
    """The verbs on dead letters, for one actor."""

    def __init__(
        self, store: Store, actor: Actor, policy: Policy, settings: OfficeSettings | None = None
    ) -> None:
        self._store = store
        self._actor = actor
        self._policy = policy
        self._settings = settings or OfficeSettings()

    @cached_property
    def _operations(self) -> bulk.Operations:
        return bulk.Operations(self._store, self._actor, Index(self._store), self._policy, self._settings)

    async def page(
        self, queue: str | None, after: str | None, limit: int
    ) -> tuple[list[DeadLetter], str | None]:
        """Some letters, oldest first, and the cursor that continues."""
        page = await self._store.letters(queue, after=after, limit=limit)
        return list(page.letters), page.cursor

    async def preview(self, selection: Selection, *, stale: bool = False) -> Tally:
        """What a re-drive would do; changes nothing."""
        found = await self._operations.preview(_order(bulk.Kind.REDRIVE, selection, stale))
        return Tally(found.count, found.gone, found.expired, found.missing)

    async def redrive(
        self, selection: Selection, *, stale: bool = False, progress: Progress = lambda _: None
    ) -> Tally:
        """Bring letters back to waiting."""
        return await self._run(_order(bulk.Kind.REDRIVE, selection, stale), progress)

    async def discard(self, selection: Selection, *, progress: Progress = lambda _: None) -> Tally:
        """Remove letters from the queue of the dead; their content is kept, their dedupe keys are freed."""
        return await self._run(_order(bulk.Kind.DISCARD, selection, True), progress)

    async def _run(self, order: bulk.Order, progress: Progress) -> Tally:
        started = await self._operations.start(order)
        seen = await self._operations.wait(started.id, progress=lambda now: progress(now.handled))
        frozen = seen.operation.frozen
        return Tally(seen.moved, seen.skipped + frozen.gone, frozen.expired, frozen.missing)


def _order(kind: bulk.Kind, selection: Selection, stale: bool) -> bulk.Order:
    if selection.ids:
        return bulk.Order(kind, bulk.Selection(ids=selection.ids), expired=stale)
    text = "" if selection.queue is None else f"queue:{selection.queue}"
    return bulk.Order(kind, bulk.Selection(filter=text, limit=selection.limit), expired=stale)
