"""A dead letter by the beginning of its id, where only one begins so.

Known weakness: only the index is asked, so what is not dead is found by its whole id alone.
"""

from __future__ import annotations

from redrive.core.errors import RedriveError
from redrive.office.filters import Filter
from redrive.office.filters.terms import Named, NameField
from redrive.office.filters.values import Pattern, is_beginning_of_id
from redrive.office.index import Index

_SHOWN = 5


class AmbiguousId(RedriveError):
    """Several dead letters begin so."""

    def __init__(self, given: str, ids: tuple[str, ...]) -> None:
        self.ids = ids
        several = f"{_SHOWN} or more" if len(ids) >= _SHOWN else str(len(ids))
        super().__init__(
            f"{given} is the beginning of {several} ids: write more of it; there are {', '.join(ids)}"
        )


async def whole_id(index: Index, given: str, *, scope: str | None = None) -> str | None:
    """The id of the one dead letter that begins so; None where none does, AmbiguousId where several do."""
    if not is_beginning_of_id(given):
        return None
    asked = Filter((Named(NameField.ID, (Pattern(f"{given.lower()}*"),)),))
    page = await index.find(asked, scope=scope, limit=_SHOWN)
    ids = tuple(one.id for one in page.letters)
    if len(ids) > 1:
        raise AmbiguousId(given, ids)
    return ids[0] if ids else None
