"""All records of a kind, however many: a store lists them page by page."""

from __future__ import annotations

from collections.abc import AsyncIterator

from redrive.core.ports import PAGE
from redrive.core.records import Record
from redrive.core.store import Records


async def every_record(store: Records, kind: str) -> AsyncIterator[Record]:
    """Each record of a kind, by id."""
    after = None
    while True:
        page = await store.list_records(kind, after=after, limit=PAGE)
        for record in page:
            yield record
        if len(page) < PAGE:
            return
        after = page[-1].id
