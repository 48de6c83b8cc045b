"""What waits for later, where many wait: counted apart from the event loop, and kept for a moment."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from redrive.core.store import QueueCounts
from redrive.stores.sqlite import SqliteStore, lanes, lines
from tests.conformance import makers
from tests.conformance.makers import MINUTE_S


@pytest.fixture
async def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[SqliteStore]:
    """Three are many."""
    monkeypatch.setattr(lanes, "MANY", 3)
    opened = SqliteStore(tmp_path / "redrive.db")
    await opened.open()
    yield opened
    await opened.close()


async def counts(store: SqliteStore) -> QueueCounts:
    (found,) = await store.queues()
    return found


async def test_a_queue_in_which_many_wait_is_counted_as_any_other(store: SqliteStore) -> None:
    await makers.submit(store, 3)
    await makers.submit(store, delay_s=10 * MINUTE_S)
    await makers.retry(store, await makers.take_one(store), delay_s=10 * MINUTE_S)
    found = await counts(store)
    assert (found.pending, found.scheduled, found.retry_scheduled) == (2, 1, 1)
    assert found.oldest_due_at is not None
    assert found.oldest_due_at <= store.now()


async def test_its_line_is_kept_for_a_moment_and_its_sums_are_exact(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines, "_KEPT_S", 60.0)
    await makers.submit(store, 4, delay_s=10 * MINUTE_S)
    assert (await counts(store)).scheduled == 4
    ids = await makers.submit(store, 2, delay_s=10 * MINUTE_S)
    found = await counts(store)
    assert (found.scheduled, found.pending) == (4, 2)
    await store.cancel(makers.QUEUE, ids, actor="ann")
    found = await counts(store)
    assert (found.scheduled, found.pending) == (4, 0)


async def test_a_line_that_is_longer_than_what_waits_by_now_is_not_believed(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines, "_KEPT_S", 60.0)
    ids = await makers.submit(store, 4, delay_s=10 * MINUTE_S)
    assert (await counts(store)).scheduled == 4
    await store.cancel(makers.QUEUE, ids, actor="ann")
    found = await counts(store)
    assert (found.scheduled, found.pending, found.oldest_due_at) == (0, 0, None)
