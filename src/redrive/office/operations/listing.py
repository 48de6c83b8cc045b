"""Operations newest first, a page at a time, without reading those that are not shown.

Ids begin with the instant of their making, and records are read by id from the oldest on: so it looks at the
last minute, then at the two before that, then at the four before those, and reads about twice what it shows.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import AsyncIterator
from typing import Final

from redrive.core.records import Record
from redrive.office.operations import records
from redrive.office.operations.operation import Operation, OperationError
from redrive.office.ports import Books

_ID: Final = re.compile(r"[0-9a-f]{12}[0-9a-f]{8}", re.ASCII)
_AFTER_ALL: Final = "~"
_FIRST_MS: Final = 60_000
_PAGE: Final = 50


def new_id(now: int) -> str:
    """The id of an operation that is made now."""
    return f"{now:012x}{secrets.token_hex(4)}"


async def latest(store: Books, before: str | None = None) -> AsyncIterator[Operation]:
    """Operations, the newest first; `before` is the id of one to go on from."""
    if before is not None and _ID.fullmatch(before) is None:
        raise OperationError(
            "the cursor is not one of a list of operations: pass one exactly as given, or none"
        )
    oldest = await store.list_records(records.OPERATION_RECORDS, limit=1)
    if not oldest:
        return
    end, at = before or _AFTER_ALL, store.now() if before is None else int(before[:12], 16)
    stretch_ms = _FIRST_MS
    while at > 0 and end > oldest[0].id:
        at = max(0, at - stretch_ms)
        begin = f"{at:012x}"
        for operation in reversed(await _between(store, begin, end)):
            yield operation
        end, stretch_ms = begin, stretch_ms * 2


async def _between(store: Books, begin: str, end: str) -> list[Operation]:
    found: list[Record] = []
    after = begin
    while True:
        page = await store.list_records(records.OPERATION_RECORDS, after=after, limit=_PAGE)
        found += [record for record in page if record.id < end]
        if len(page) < _PAGE or page[-1].id >= end:
            return [one for one in map(records.readable, found) if one is not None]
        after = page[-1].id
