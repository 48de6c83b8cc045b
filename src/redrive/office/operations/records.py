"""Where operations are kept: their record, their frozen list in chunks, and which live.

Every change of an operation is compare-and-set on one record. A chunk is written before the record counts it,
and once: whoever comes second, after a crash or beside a process that was too slow, takes it as it is. Known
weakness: ended operations and their lists stay until `forget` takes them.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
from typing import Any

import msgspec

from redrive.core.errors import RedriveError, VersionConflict
from redrive.core.letters import LetterKey
from redrive.core.records import Record
from redrive.core.store import Records
from redrive.office.operations.operation import NoOperation, Operation, OperationError, read_operation
from redrive.office.records import every_record

OPERATION_RECORDS = "operation"
LETTER_RECORDS = "operation_letters"
BODY_RECORDS = "operation_body"
LIVE_RECORDS = "operation_live"

Letter = tuple[str, LetterKey]
"""The queue of a letter, and the one death of it that is meant."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """A part of a frozen list: its letters, how many were left out and why, and where freezing goes on."""

    letters: Sequence[Letter]
    cursor: str | None
    expired: int = 0
    gone: int = 0
    missing: int = 0


class UnreadableOperation(OperationError):
    """A record that is no operation: of a newer version, or damaged."""


async def create(store: Records, operation: Operation) -> None:
    """Keep a new operation; once more with the same id changes nothing."""
    await store.put_record(LIVE_RECORDS, operation.id, {"at": operation.created_at}, expected=None)
    try:
        await store.put_record(OPERATION_RECORDS, operation.id, operation.document(), expected=0)
    except VersionConflict:
        return


async def load(store: Records, operation_id: str) -> Operation:
    """The operation, or NoOperation; UnreadableOperation when its record is not one."""
    return (await _load(store, operation_id))[0]


async def change(store: Records, operation_id: str, make: Callable[[Operation], Operation]) -> Operation:
    """Apply a change to the operation as it is now, whoever else changes it."""
    while True:
        current, version = await _load(store, operation_id)
        changed = make(current)
        if changed == current:
            return current
        try:
            await store.put_record(OPERATION_RECORDS, operation_id, changed.document(), expected=version)
        except VersionConflict:
            continue
        return changed


async def _load(store: Records, operation_id: str) -> tuple[Operation, int]:
    record = await store.get_record(OPERATION_RECORDS, operation_id)
    if record is None:
        raise NoOperation(operation_id)
    return _read(record), record.version


def _read(record: Record) -> Operation:
    try:
        return read_operation(record.document)
    except (msgspec.ValidationError, RedriveError) as error:
        raise UnreadableOperation(f"the record of operation {record.id} cannot be read: {error}") from error


async def every(store: Records) -> AsyncIterator[Operation]:
    """All operations that can be read, the oldest first."""
    async for record in every_record(store, OPERATION_RECORDS):
        operation = readable(record)
        if operation is not None:
            yield operation


def readable(record: Record) -> Operation | None:
    """The operation of a record; None of one that cannot be read: conducting it tells so."""
    try:
        return _read(record)
    except UnreadableOperation:
        return None


async def live(store: Records) -> list[str]:
    """The ids of operations that have not ended, or whose end is not told yet."""
    return [record.id async for record in every_record(store, LIVE_RECORDS)]


async def retire(store: Records, operation_id: str) -> None:
    """It has ended and its end is told: nobody needs to look at it any more."""
    await store.delete_record(LIVE_RECORDS, operation_id, expected=None)
    await store.delete_record(BODY_RECORDS, operation_id, expected=None)


async def forget(store: Records, operation: Operation) -> None:
    """Remove an ended operation with its frozen list; the audit keeps what it did."""
    for number in range(operation.frozen.chunks):
        await store.delete_record(LETTER_RECORDS, _chunk_id(operation.id, number), expected=None)
    await store.delete_record(OPERATION_RECORDS, operation.id, expected=None)


async def keep_chunk(store: Records, operation_id: str, number: int, chunk: Chunk) -> Chunk:
    """Keep a chunk; the one that stands there, when it was kept before."""
    document = {**asdict(chunk), "letters": _plain(chunk.letters)}
    try:
        await store.put_record(LETTER_RECORDS, _chunk_id(operation_id, number), document, expected=0)
    except VersionConflict:
        kept = await _read_chunk(store, operation_id, number)
        if kept is None:
            raise OperationError(f"operation {operation_id} was forgotten while it froze") from None
        return kept
    return chunk


async def read_chunk(store: Records, operation_id: str, number: int) -> Sequence[Letter]:
    """The letters of one chunk; none when there is none."""
    chunk = await _read_chunk(store, operation_id, number)
    return () if chunk is None else chunk.letters


async def _read_chunk(store: Records, operation_id: str, number: int) -> Chunk | None:
    record = await store.get_record(LETTER_RECORDS, _chunk_id(operation_id, number))
    if record is None:
        return None
    fields = dict(record.document)
    letters = [(queue, LetterKey(name, generation)) for queue, name, generation in fields.pop("letters")]
    return Chunk(letters, **fields)


async def write_body(store: Records, operation_id: str, body: bytes) -> None:
    """Keep the body that an edited letter gets."""
    document = {"base64": b64encode(body).decode("ascii")}
    await store.put_record(BODY_RECORDS, operation_id, document, expected=None)


async def read_body(store: Records, operation_id: str) -> bytes:
    """The body that an edited letter gets."""
    record = await store.get_record(BODY_RECORDS, operation_id)
    if record is None:
        raise OperationError(f"the edited body of operation {operation_id} is gone: start it again")
    return b64decode(record.document["base64"])


def by_queue(letters: Sequence[Letter]) -> dict[str, list[LetterKey]]:
    """The letters of each queue: a store is asked queue by queue."""
    queues: dict[str, list[LetterKey]] = {}
    for queue, key in letters:
        queues.setdefault(queue, []).append(key)
    return queues


def chained_hash(before: str, letters: Sequence[Letter]) -> str:
    """The hash of a frozen list: of the hash before a chunk, and the chunk."""
    text = json.dumps([before, _plain(letters)], separators=(",", ":"))
    return sha256(text.encode("utf-8")).hexdigest()


def _plain(letters: Sequence[Letter]) -> list[Any]:
    return [[queue, key.id, key.generation] for queue, key in letters]


def _chunk_id(operation_id: str, number: int) -> str:
    return f"{operation_id}/{number:06d}"
