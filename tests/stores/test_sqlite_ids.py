"""Ids in a SQLite file: one for all queues."""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace

from redrive.core.lifecycle import State
from redrive.core.ports import Receipt, Status
from redrive.stores.sqlite import SqliteStore
from tests.conformance.makers import append, drain, entry


async def test_an_id_of_another_queue_is_a_conflict(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "redrive.db")
    await store.open()
    try:
        first = entry(store, queue="a")
        await append(store, first)
        (receipt,) = await append(store, replace(first, message=replace(first.message, queue="b")))
        assert receipt == Receipt(first.message.id, State.WAITING, Status.CONFLICT, "queue")
        assert await drain(store, queue="b") == []
    finally:
        await store.close()
