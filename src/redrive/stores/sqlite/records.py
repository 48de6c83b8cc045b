"""Records and the journal: versioned JSON documents, and rows that are only ever added."""

from __future__ import annotations

import apsw
import msgspec

from redrive.core.errors import InvalidMessage, VersionConflict
from redrive.core.records import Document, JournalRow, Record
from redrive.stores.sqlite.connection import DIALECT
from redrive.stores.sqlite.unit import Unit
from redrive.stores.statements import load_sql

SQL = load_sql(DIALECT, "records")

_decode = msgspec.json.decode


def encode_document(document: Document) -> str:
    """A document as it is stored."""
    try:
        return msgspec.json.encode(document).decode()
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidMessage(f"the document cannot be written as JSON: {error}") from error


def get_record(db: apsw.Connection, kind: str, record_id: str, now: int) -> Record | None:
    """The work of `Records.get_record`."""
    row = db.execute(SQL["record"], (kind, record_id, now)).fetchone()
    if row is None:
        return None
    version, document = row
    return Record(kind, record_id, version, _decode(document))


def list_records(db: apsw.Connection, kind: str, after: str | None, limit: int, now: int) -> list[Record]:
    """The work of `Records.list_records`."""
    rows = db.execute(SQL["list"], (kind, after or "", now, limit))
    return [Record(kind, record_id, version, _decode(document)) for record_id, version, document in rows]


def put_record(
    unit: Unit, kind: str, record_id: str, document: str, expected: int | None, ttl_s: float | None
) -> int:
    """The write of `Records.put_record`."""
    version = _check(unit, kind, record_id, expected) + 1
    expires_at = None if ttl_s is None else unit.now + round(ttl_s * 1000)
    unit.db.execute(SQL["write"], (kind, record_id, version, document, expires_at))
    return version


def delete_record(unit: Unit, kind: str, record_id: str, expected: int | None) -> bool:
    """The write of `Records.delete_record`."""
    found = _check(unit, kind, record_id, expected)
    unit.db.execute(SQL["delete"], (kind, record_id))
    return found > 0


def _check(unit: Unit, kind: str, record_id: str, expected: int | None) -> int:
    found, _ = unit.db.execute(SQL["record"], (kind, record_id, unit.now)).fetchone() or (0, None)
    if expected is not None and expected != found:
        raise VersionConflict(f"{kind} {record_id}", expected, found)
    return int(found)


def write_journal(unit: Unit, name: str, document: str, expected_head: int | None) -> int:
    """The write of `Journal.write_journal`."""
    head: int = unit.db.execute(SQL["head"], (name,)).get
    if expected_head is not None and expected_head != head:
        raise VersionConflict(f"journal {name}", expected_head, head)
    unit.db.execute(SQL["add_row"], (name, head + 1, unit.now, document))
    return head + 1


def read_journal(db: apsw.Connection, name: str, after: int, limit: int) -> list[JournalRow]:
    """The work of `Journal.read_journal`."""
    rows = db.execute(SQL["rows"], (name, after, limit))
    return [JournalRow(position, at, _decode(document)) for position, at, document in rows]
