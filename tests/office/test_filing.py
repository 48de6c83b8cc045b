"""Export and restore as operations: whole files, carried on after a crash, and nothing from a damaged one."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from redrive.core.lifecycle import Move
from redrive.core.store import Store
from redrive.office.archive.writer import ArchiveWriter
from redrive.office.operations import OperationError, OperationKind, OperationState, Order, Selection
from redrive.office.operations.operation import CHUNK
from tests.conformance.backends import Bench
from tests.conformance.makers import QUEUE, counts, keys
from tests.conformance.makers import letters as dead_letters
from tests.office.desks import ORDERS, desk, discard, letters, run_to, step

BODY = b'{"to": "anna@example.org", "token": "abc"}'


def _export(path: Path, **more: object) -> Order:
    return Order(OperationKind.EXPORT, ORDERS, file=str(path), **more)  # type: ignore[arg-type]


async def test_an_export_writes_each_letter_once_masked_and_readable_by_its_owner_alone(
    store: Store, tmp_path: Path
) -> None:
    ids = await letters(store, CHUNK + 5, body=BODY)
    office, path = desk(store), tmp_path / "letters.jsonl"
    started = await office.start(_export(path))
    seen = await office.wait(started.id)
    assert (seen.operation.state, seen.moved, seen.outstanding) == (OperationState.FINISHED, CHUNK + 5, 0)
    written = [json.loads(line) for line in path.read_text().splitlines()]
    assert {one["jobId"] for one in written} == set(ids)
    assert len(written) == len(ids)
    assert "anna@" not in path.read_text()
    assert path.stat().st_mode & 0o777 == 0o600
    assert (await counts(store)).dlq == CHUNK + 5


async def test_another_process_goes_on_with_an_export_and_cuts_off_what_was_not_written_down(
    store: Store, bench: Bench, tmp_path: Path
) -> None:
    ids = await letters(store, CHUNK + 5, body=BODY)
    first, path = desk(store), tmp_path / "letters.csv"
    started = await first.start(_export(path, form="csv", reveal=True))
    await run_to(first, started.id, lambda seen: seen.handled == CHUNK)
    partial = path.with_name(f"{path.name}.{started.id}.partial")
    with partial.open("ab") as file:
        file.write(b"half a li")
    bench.advance(11)
    seen = await desk(await bench.open_store()).wait(started.id)
    assert seen.moved == CHUNK + 5
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["jobId"] for row in rows] == ids
    assert json.loads(rows[0]["originalData"]) == json.loads(BODY)
    assert not partial.exists()


async def test_a_cancelled_export_leaves_no_file_and_letters_that_left_are_skipped(
    store: Store, tmp_path: Path
) -> None:
    ids = await letters(store, 3)
    office, path = desk(store), tmp_path / "letters.jsonl"
    cancelled = await office.start(_export(path, rate="1/hour"))
    await run_to(office, cancelled.id, lambda seen: seen.handled == 1)
    await office.cancel(cancelled.id)
    await office.wait(cancelled.id)
    assert not path.exists()
    assert not path.with_name("letters.jsonl.partial").exists()
    started = await office.start(_export(path))
    await step(office, started.id)
    other = await office.start(discard(Selection(ids=(ids[0],))))
    await office.wait(other.id)
    seen = await office.wait(started.id)
    assert (seen.moved, seen.skipped) == (2, 1)


async def _archive(store: Store, folder: Path) -> Path:
    """The store's letters in an archive, and no longer in the store."""
    found = await dead_letters(store)
    writer = ArchiveWriter(folder, store="test", queue=QUEUE, made_at=store.now())
    writer.add(found)
    archive = writer.finish()
    ids = [one.message.id for one in found]
    assert len(await store.remove(QUEUE, keys(ids), Move.ARCHIVE, actor="test")) == len(ids)
    return archive.path


async def test_a_restore_brings_an_archive_back_as_it_left(store: Store, tmp_path: Path) -> None:
    await letters(store, 7)
    before = await dead_letters(store)
    path = await _archive(store, tmp_path / "archive")
    office = desk(store)
    started = await office.start(Order(OperationKind.RESTORE, file=str(path)))
    seen = await office.wait(started.id)
    assert (seen.operation.state, seen.moved, seen.skipped) == (OperationState.FINISHED, 7, 0)
    assert await dead_letters(store) == before
    again = await office.start(Order(OperationKind.RESTORE, file=str(path)))
    seen = await office.wait(again.id)
    assert (seen.moved, seen.skipped) == (0, 7)


async def test_another_process_goes_on_with_a_restore(store: Store, bench: Bench, tmp_path: Path) -> None:
    await letters(store, CHUNK + 3)
    path = await _archive(store, tmp_path / "archive")
    first = desk(store)
    started = await first.start(Order(OperationKind.RESTORE, file=str(path)))
    await run_to(first, started.id, lambda seen: seen.handled == CHUNK)
    bench.advance(11)
    seen = await desk(await bench.open_store()).wait(started.id)
    assert (seen.moved, seen.skipped, (await counts(store)).dlq) == (CHUNK + 3, 0, CHUNK + 3)


async def test_nothing_comes_back_from_a_damaged_archive(store: Store, tmp_path: Path) -> None:
    await letters(store, 3)
    path = await _archive(store, tmp_path / "archive")
    path.write_bytes(path.read_bytes()[:-20])
    office = desk(store)
    started = await office.start(Order(OperationKind.RESTORE, file=str(path)))
    seen = await office.wait(started.id)
    assert seen.operation.state is OperationState.FAILED
    assert "nothing was moved" in seen.operation.why
    assert (await counts(store)).dlq == 0


async def test_a_file_is_named_by_those_on_the_machine_and_never_overwritten(
    store: Store, tmp_path: Path
) -> None:
    office = desk(store)
    there = tmp_path / "there"
    there.touch()
    for order, problem in [
        (_export(there), "already"),
        (_export(tmp_path / "nowhere" / "x"), "not a folder"),
        (_export(Path("letters.jsonl")), "absolute"),
        (Order(OperationKind.EXPORT, ORDERS), "needs file"),
        (Order(OperationKind.DISCARD, ORDERS, file="/x"), "takes no file"),
    ]:
        with pytest.raises(OperationError, match=problem):
            await office.start(order)
    with pytest.raises(OperationError, match="command line"):
        await desk(store, files=False).start(_export(tmp_path / "x"))
    assert (await office.list()).found == []


async def test_a_restore_takes_the_archive_it_was_asked_for_and_no_other_of_that_name(
    store: Store, tmp_path: Path
) -> None:
    await letters(store, 1)
    meant = await _archive(store, tmp_path / "archive")
    await letters(store, 1)
    other = await _archive(store, tmp_path / "archive")
    office = desk(store)
    started = await office.start(Order(OperationKind.RESTORE, file=str(meant)))
    await run_to(office, started.id, lambda seen: seen.operation.frozen.total == 1)
    other.replace(meant)
    seen = await office.wait(started.id)
    assert (seen.operation.state, "another archive" in seen.operation.why) == (OperationState.FAILED, True)
    assert (await counts(store)).dlq == 0
