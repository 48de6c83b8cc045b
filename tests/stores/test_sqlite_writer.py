"""The writer: steps share a transaction, one that raises undoes only itself, nobody is answered early."""

from __future__ import annotations

import asyncio
import fcntl
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from redrive.core.errors import InvalidMessage, StoreUnavailable, VersionConflict
from redrive.core.ports import Status
from redrive.stores.sqlite import SqliteStore, writer
from redrive.stores.sqlite.turn_lock import TurnLock
from tests.conformance import makers


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    store = SqliteStore(tmp_path / "redrive.db")
    await store.open()
    yield store
    await store.close()


async def commits(store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> list[None]:
    """A list that grows by one with each commit from now on."""
    seen: list[None] = []
    original = writer.Writer._commit_now

    def commit_now(self: writer.Writer) -> float:
        seen.append(None)
        return original(self)

    monkeypatch.setattr(writer.Writer, "_commit_now", commit_now)
    return seen


async def test_calls_made_at_the_same_time_share_a_commit(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = await commits(store, monkeypatch)
    await asyncio.gather(*(makers.submit(store) for _ in range(20)))
    assert len(seen) <= 3
    assert (await makers.counts(store)).pending == 20


async def test_a_step_that_raises_undoes_only_itself(store: SqliteStore) -> None:
    await store.put_record("note", "a", {"text": "first"}, expected=0)
    answers = await asyncio.gather(
        makers.submit(store),
        store.put_record("note", "a", {"text": "second"}, expected=0),
        makers.submit(store),
        return_exceptions=True,
    )
    assert isinstance(answers[1], VersionConflict)
    assert (await makers.counts(store)).pending == 2


async def test_text_that_cannot_be_stored_is_refused_and_spoils_nothing(store: SqliteStore) -> None:
    good, bad = makers.entry(store), makers.entry(store, dedupe="\ud800")
    answers = await asyncio.gather(
        makers.append(store, good), makers.append(store, bad), return_exceptions=True
    )
    assert isinstance(answers[1], InvalidMessage)
    assert answers[0][0].status is Status.ACCEPTED
    assert (await makers.counts(store)).pending == 1


async def test_a_cancelled_caller_leaves_the_store_whole(store: SqliteStore) -> None:
    calls = [asyncio.create_task(makers.submit(store)) for _ in range(10)]
    await asyncio.sleep(0)
    for call in calls[::2]:
        call.cancel()
    await asyncio.gather(*calls, return_exceptions=True)
    await makers.submit(store)
    assert 6 <= (await makers.counts(store)).pending <= 11


async def test_a_turn_that_is_never_given_up_is_told_as_unavailable(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "PATIENCE_S", 0.2)
    other = TurnLock(store.path)
    assert other.try_take()
    with pytest.raises(StoreUnavailable, match="another Redrive process"):
        await makers.submit(store)
    other.close()
    assert len(await makers.submit(store)) == 1


async def test_while_somebody_waits_at_the_gate_nobody_takes_the_turn_past_him(store: SqliteStore) -> None:
    first = TurnLock(store.path)
    gate = os.open(f"{store.path}-gate", os.O_RDWR)
    fcntl.flock(gate, fcntl.LOCK_EX)
    assert not first.try_take()
    os.close(gate)
    assert first.try_take()
    first.close()
