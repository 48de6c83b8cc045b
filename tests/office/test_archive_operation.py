"""Archive as an operation: what was dead when it was asked for leaves for files, after they are whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from redrive.core.errors import ConfigurationError
from redrive.core.lifecycle import Move, State
from redrive.core.store import Store
from redrive.office.archive.reader import read_archive
from redrive.office.audit import Query, read
from redrive.office.operations import OperationError, OperationKind, OperationState, Order, Selection
from redrive.office.operations.operation import CHUNK
from tests.conformance.backends import Bench
from tests.conformance.makers import account, counts
from tests.office.desks import desk, discard, letters, run_to, step


def _archive(folder: Path, selection: Selection | None = None) -> Order:
    return Order(OperationKind.ARCHIVE, selection or Selection(), expired=True, file=str(folder))


def _archived(folder: Path) -> list[str]:
    return sorted(one.message.id for path in folder.iterdir() for one in read_archive(path))


async def test_each_queue_gets_one_archive_and_the_audit_names_them(store: Store, tmp_path: Path) -> None:
    ids = [*await letters(store, CHUNK + 3), *await letters(store, 2, queue="billing")]
    office, folder = desk(store), tmp_path / "kept"
    started = await office.start(_archive(folder))
    seen = await office.wait(started.id)
    assert (seen.operation.state, seen.moved, seen.skipped) == (OperationState.FINISHED, CHUNK + 5, 0)
    assert sorted(seen.operation.files) == sorted(map(str, folder.iterdir()))
    assert len(seen.operation.files) == 2
    assert _archived(folder) == sorted(ids)
    removed = await account(store, ids[0])
    assert (removed.state, removed.removal and removed.removal.move) == (State.REMOVED, Move.ARCHIVE)
    rows = [row.document async for row in read(store, Query(verb="archive"))]
    steps = [row["row"] for row in rows if row["action"] == started.id]
    assert steps == ["intent", "frozen", "outcome"]
    named = {row["subject"]["file"] for row in rows if "file" in row.get("subject", {})}
    assert named == set(seen.operation.files)


async def test_what_died_after_the_question_stays(store: Store, bench: Bench, tmp_path: Path) -> None:
    before = await letters(store, 2)
    office = desk(store)
    started = await office.start(_archive(tmp_path / "kept"))
    bench.advance(5)
    await letters(store, 3)
    seen = await office.wait(started.id)
    assert (seen.moved, (await counts(store)).dlq) == (2, 3)
    assert _archived(tmp_path / "kept") == sorted(before)


async def test_a_letter_that_went_another_way_is_in_no_archive(store: Store, tmp_path: Path) -> None:
    ids = await letters(store, 3)
    office = desk(store)
    started = await office.start(_archive(tmp_path / "kept"))
    await step(office, started.id)
    other = await office.start(discard(Selection(ids=(ids[0],))))
    await office.wait(other.id)
    seen = await office.wait(started.id)
    assert (seen.moved, seen.skipped) == (2, 1)
    assert _archived(tmp_path / "kept") == sorted(ids[1:])


async def test_a_process_that_dies_before_the_letters_are_removed_loses_none(
    store: Store, bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = await letters(store, 4)
    first = desk(store)
    started = await first.start(_archive(tmp_path / "kept"))
    await run_to(first, started.id, lambda seen: seen.operation.state is OperationState.MOVING)

    async def dying(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(store, "remove", dying)
        with pytest.raises(KeyboardInterrupt):
            await first.conductor.advance(started.id)
    assert (await counts(store)).dlq == 4
    bench.advance(11)
    seen = await desk(await bench.open_store()).wait(started.id)
    assert (seen.operation.state, seen.moved) == (OperationState.FINISHED, 4)
    assert set(_archived(tmp_path / "kept")) == set(ids)


async def test_a_folder_that_cannot_be_written_to_and_a_rate_are_refused(
    store: Store, tmp_path: Path
) -> None:
    await letters(store, 1)
    (tmp_path / "file").write_text("")
    with pytest.raises(OperationError, match="cannot write"):
        await desk(store).start(_archive(tmp_path / "file"))
    with pytest.raises(OperationError, match="command line"):
        await desk(store, files=False).start(_archive(tmp_path / "kept"))
    with pytest.raises(ConfigurationError, match="rate"):
        Order(OperationKind.ARCHIVE, file=str(tmp_path), rate="1/s")
    assert (await counts(store)).dlq == 1
