"""Filters worth keeping, by name, for everyone of the same scope: the first thing to look at each morning."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from redrive.core.errors import ConfigurationError
from redrive.office.audit import Actor, action
from redrive.office.filters import FilterError
from redrive.office.filters.masked import MaskedValue
from redrive.office.ports import Books
from redrive.office.records import every_record
from redrive.office.view import View

VIEW_RECORDS: Final = "view"
MOST_VIEWS: Final = 100
_NAME_LENGTH: Final = 60


@dataclass(frozen=True, slots=True)
class SavedView:
    """A filter with a name."""

    name: str
    filter: str


class SavedViews:
    """The verbs on saved views; who is bound to a tenant has views of that tenant's own."""

    def __init__(self, store: Books, actor: Actor, view: View) -> None:
        self._store = store
        self._actor = actor
        self._view = view

    async def list(self) -> list[SavedView]:
        """The views that this actor may see, by name. One whose filter it may not ask is left out."""
        prefix, found = self._record_id(""), []
        async for record in every_record(self._store, VIEW_RECORDS):
            text = str(record.document["filter"])
            if record.id.startswith(prefix):
                with suppress(MaskedValue, FilterError):
                    self._view.filter(text)
                    found.append(SavedView(record.id.removeprefix(prefix), text))
        return found

    async def save(self, name: str, text: str) -> SavedView:
        """Keep a filter under a name, in place of one that was there."""
        name = " ".join(name.split())
        if not name or len(name) > _NAME_LENGTH:
            raise ConfigurationError(f"a view's name has 1 to {_NAME_LENGTH} characters")
        made = SavedView(name, str(self._view.filter(text)))
        known = {one.name for one in await self.list()}
        if name not in known and len(known) >= MOST_VIEWS:
            raise ConfigurationError(f"there are {MOST_VIEWS} views: remove one first")
        async with action(self._store, self._actor, "save view", {"view": name, "filter": made.filter}):
            document = {"filter": made.filter, "by": self._actor.name}
            await self._store.put_record(VIEW_RECORDS, self._record_id(name), document, expected=None)
        return made

    async def remove(self, name: str) -> bool:
        """Forget a view; False when there is none."""
        if len(name) > _NAME_LENGTH:
            return False
        async with action(self._store, self._actor, "remove view", {"view": name}) as current:
            removed = await self._store.delete_record(VIEW_RECORDS, self._record_id(name), expected=None)
            current.result["removed"] = removed
        return removed

    def _record_id(self, name: str) -> str:
        return f"{self._view.scope or '*'}/{name}"
