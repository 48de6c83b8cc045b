"""The audit's rows as a chain: each holds the hash of the one before it, so that none changes unseen.

A row's hash is taken over its content, its position and its instant. The last hash is also kept in a record
of its own, which shows that the end was cut off. Rows from before there was a chain count, and the first
chained one holds on to the last of them.
Known weakness: whoever can write to the store can write a whole new chain. Keep the head that `verify` tells
in another place, and hand it in: then that is found too.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from redrive.core.errors import VersionConflict
from redrive.core.ports import PAGE
from redrive.core.records import JournalRow
from redrive.office.ports import Books

AUDIT = "audit"
HEAD_RECORDS = "audit_head"
_FAULTS = 100
_HEAD = re.compile(r"(\d{1,15}):([0-9a-f]{64})", re.ASCII)

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Head:
    """Where a chain ends: the position of its last row, and that row's hash."""

    position: int = 0
    hash: str = ""

    def __str__(self) -> str:
        return f"{self.position}:{self.hash}"

    @classmethod
    def parse(cls, text: str) -> Head | None:
        """A head as it was written before; None where it is not one."""
        match = _HEAD.fullmatch(text.strip())
        return None if match is None else cls(int(match[1]), match[2])


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong at a position."""

    position: int
    what: str


@dataclass(frozen=True, slots=True)
class Verification:
    """What `verify` found: rows, those from before the chain, faults (a hundred at most), the head."""

    rows: int
    unchained: int
    faults: tuple[Fault, ...]
    head: Head

    @property
    def whole(self) -> bool:
        return not self.faults


async def add(store: Books, row: Row) -> Head:
    """Add a row at the end, whoever else adds one now."""
    while True:
        written = await _try_add(store, await head_of(store), row)
        if written is not None:
            return written


async def add_once(store: Books, after: int, row: Row) -> Head:
    """Add a row unless one of the same action and sort stands after a position already.

    It is added after the last row that was looked at: what another adds meanwhile is looked at first.
    """
    while True:
        head, _ = await _remembered(store)
        async for one in journal(store, after=max(0, after - 1)):
            head = Head(one.position, _hash_of(one))
            same = (one.document.get("action"), one.document.get("row")) == (row["action"], row["row"])
            if same and one.position > after:
                return head
        written = await _try_add(store, head, row)
        if written is not None:
            return written


async def _try_add(store: Books, head: Head, row: Row) -> Head | None:
    """Add a row after this head; None when the journal has gone on meanwhile.

    Where the end was cut off, the row goes on from what is left with the hash of the one that is gone, so
    that `verify` sees it for ever.
    """
    end = head.position
    while True:
        sealed = seal(row, Head(end + 1, head.hash), store.now())
        try:
            position = await store.write_journal(AUDIT, sealed, expected_head=end)
        except VersionConflict as conflict:
            if conflict.found is None or conflict.found >= end:
                return None
            end = conflict.found
            continue
        written = Head(position, sealed["hash"])
        await _remember(store, written, cut=end < head.position)
        return written


async def journal(store: Books, *, after: int = 0) -> AsyncIterator[JournalRow]:
    """Every row of the audit from after a position."""
    while page := await store.read_journal(AUDIT, after=after, limit=PAGE):
        for row in page:
            yield row
        after = page[-1].position


async def head_of(store: Books) -> Head:
    """The last row of the audit: the one that is remembered, or a later one."""
    head, _ = await _remembered(store)
    async for row in journal(store, after=head.position):
        head = Head(row.position, _hash_of(row))
    return head


async def verify(store: Books, known: Head | None = None) -> Verification:
    """Read the whole chain; `known` is a head that was kept elsewhere and must still be in it."""
    remembered, version = await _remembered(store)
    anchors = [one for one in (remembered if version else None, known) if one is not None]
    faults: list[Fault] = []
    rows = unchained = 0
    last = Head()
    async for row in journal(store):
        rows += 1
        chained = "hash" in row.document
        unchained += not chained
        faults += _check(row, last, chained, unchained == rows)
        last = Head(row.position, _hash_of(row))
        for anchor in anchors:
            if anchor.position == last.position and anchor.hash != last.hash:
                faults.append(
                    Fault(row.position, "another row stood here: its hash was kept, and is another")
                )
    for anchor in anchors:
        if anchor.position > last.position:
            faults.append(Fault(last.position, f"the end is cut off: there were {anchor.position} rows"))
    return Verification(rows, unchained, tuple(dict.fromkeys(faults))[:_FAULTS], last)


def seal(row: Row, place: Head, now: int) -> dict[str, Any]:
    """A row as it is written at a place: with its instant, the hash before it, and its own."""
    content = {**row, "at": now, "previous": place.hash}
    return {**content, "hash": digest(place.position, content)}


def digest(position: int, document: Row) -> str:
    """The hash of a row's content at its position."""
    content = {name: value for name, value in document.items() if name != "hash"}
    text = json.dumps([position, content], sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _check(row: JournalRow, last: Head, chained: bool, all_unchained: bool) -> list[Fault]:
    faults = []
    if row.position != last.position + 1:
        faults.append(Fault(row.position, f"rows {last.position + 1} to {row.position - 1} are missing"))
    if not chained and not all_unchained:
        faults.append(Fault(row.position, "the row has no hash, and those before it have one"))
    if chained and row.document["hash"] != digest(row.position, row.document):
        faults.append(Fault(row.position, "the row was changed: its content does not give its hash"))
    if chained and row.document["previous"] != last.hash:
        faults.append(Fault(row.position, "the row before it is not the one that stood there"))
    return faults


def _hash_of(row: JournalRow) -> str:
    """What the next row must hold. A row from before the chain is hashed as it stands."""
    return str(row.document.get("hash") or digest(row.position, row.document))


async def _remembered(store: Books) -> tuple[Head, int]:
    record = await store.get_record(HEAD_RECORDS, AUDIT)
    if record is None:
        return Head(), 0
    return Head(int(record.document["position"]), str(record.document["hash"])), record.version


async def _remember(store: Books, head: Head, *, cut: bool) -> None:
    """Keep the head, unless a later one is kept already; after a cut the later one is gone."""
    while True:
        kept, version = await _remembered(store)
        if kept.position >= head.position and not cut:
            return
        try:
            await store.put_record(HEAD_RECORDS, AUDIT, _document(head), expected=version)
        except VersionConflict:
            continue
        return


def _document(head: Head) -> dict[str, Any]:
    return {"position": head.position, "hash": head.hash}
