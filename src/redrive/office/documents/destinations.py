"""Where mail did not arrive, as it goes out: domains and codes, never an address."""

from __future__ import annotations

from typing import TYPE_CHECKING

from redrive.office.documents.document import Document
from redrive.office.documents.letters import EmptyDocument

if TYPE_CHECKING:
    from redrive.office.destinations import DestinationTable


class DestinationDocument(Document, frozen=True):
    """How many letters for a domain (null: none can be told) died with a code (null: without one)."""

    domain: str | None
    code: str | None
    count: int


class DestinationList(Document, frozen=True):
    """The most first; `others` is how many rows are not shown.

    `looked`: how many letters were looked at, the newest first; `whole`: that was all of them. `masked`:
    the setting `office.masked` hides addresses, so nothing is told.
    """

    destinations: list[DestinationDocument]
    others: int
    looked: int
    whole: bool
    masked: bool
    behind: bool
    notice: str | None
    empty: EmptyDocument | None


SCHEMAS = (DestinationList,)


def destination_list(
    found: DestinationTable, limit: int, *, behind: bool, notice: str | None, empty: EmptyDocument | None
) -> DestinationList:
    """The first rows of a table."""
    return DestinationList(
        destinations=[
            DestinationDocument(domain=one.domain or None, code=one.code or None, count=one.count)
            for one in found.rows[:limit]
        ],
        others=max(0, len(found.rows) - limit),
        looked=found.looked,
        whole=found.whole,
        masked=found.masked,
        behind=behind,
        notice=notice,
        empty=empty,
    )
