"""Records and the journal on Redis, each kind and each journal in a slot of its own.

Documents are JSON text, so that they can be read with any client.
"""

from __future__ import annotations

from typing import Any

import msgspec

from redrive.core.errors import VersionConflict
from redrive.core.ports import PAGE
from redrive.core.records import Document, JournalRow, Record
from redrive.stores.redis.client import Client, to_ms


class RedisRecords:
    """core.store.Records."""

    _client: Client

    async def get_record(self, kind: str, record_id: str) -> Record | None:
        row = await self._client.run("get_record", self._kind_key(kind), record_id)
        if not row:
            return None
        version, text = row
        return Record(kind, record_id, version, _read(text))

    async def put_record(
        self,
        kind: str,
        record_id: str,
        document: Document,
        *,
        expected: int | None,
        ttl_s: float | None = None,
    ) -> int:
        ttl_ms = -1 if ttl_s is None else to_ms(ttl_s)
        root, version = self._kind_key(kind), _version(expected)
        written, found = await self._client.run(
            "put_record", root, record_id, _write(document), version, ttl_ms
        )
        return _check(written, f"record {kind}/{record_id}", expected, found)

    async def list_records(self, kind: str, *, after: str | None = None, limit: int = PAGE) -> list[Record]:
        if limit < 1:
            return []
        rows = await self._client.run("list_records", self._kind_key(kind), after or "", limit)
        triples = zip(rows[0::3], rows[1::3], rows[2::3], strict=True)
        return [Record(kind, name.decode(), version, _read(text)) for name, version, text in triples]

    async def delete_record(self, kind: str, record_id: str, *, expected: int | None) -> bool:
        written, found = await self._client.run(
            "delete_record", self._kind_key(kind), record_id, _version(expected)
        )
        return bool(_check(written, f"record {kind}/{record_id}", expected, found))

    def _kind_key(self, kind: str) -> str:
        return self._client.shelf_key("records", kind)


class RedisJournal:
    """core.store.Journal."""

    _client: Client

    async def write_journal(self, name: str, document: Document, *, expected_head: int | None = None) -> int:
        key, head = self._client.shelf_key("journal", name), _version(expected_head)
        written, found = await self._client.run("write_journal", key, _write(document), head)
        return _check(written, f"journal {name}", expected_head, found)

    async def read_journal(self, name: str, *, after: int = 0, limit: int = PAGE) -> list[JournalRow]:
        key = self._client.shelf_key("journal", name)
        rows = await self._client.command("XRANGE", key, f"{after + 1}-0", "+", "COUNT", limit)
        return [_read_row(position, fields) for position, fields in rows]


def _read_row(position: bytes, fields: Any) -> JournalRow:
    values = fields if isinstance(fields, dict) else dict(zip(fields[0::2], fields[1::2], strict=True))
    return JournalRow(int(position.partition(b"-")[0]), int(values[b"at"]), _read(values[b"document"]))


def _version(expected: int | None) -> int:
    return -1 if expected is None else expected


def _check(written: int, what: str, expected: int | None, found: int) -> int:
    if not written:
        raise VersionConflict(what, expected, found)
    return found


def _write(document: Document) -> bytes:
    return msgspec.json.encode(document)


def _read(text: bytes) -> Document:
    document: dict[str, Any] = msgspec.json.decode(text, type=dict[str, Any])
    return document
