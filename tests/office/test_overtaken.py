"""A process that was slower than its lease: another has gone on with its operation, and nothing is lost."""

from __future__ import annotations

from pathlib import Path
from typing import cast

from redrive.core.letters import LetterKey
from redrive.core.lifecycle import State
from redrive.core.store import Store
from redrive.office.operations import OperationKind, OperationState, Order, Selection, records
from redrive.office.operations.move import move, new_id
from redrive.office.operations.steps import Steps
from tests.conformance.makers import account, counts
from tests.office.desks import ORDERS, desk, discard, letters, make_office, redrive, run_to, work
from tests.office.slow import SlowStore


def _steps(store: Store) -> Steps:
    """The steps as another process takes them, without asking for a lease."""
    return Steps(make_office(store))


def _folder(path: Path) -> Path:
    folder = path / "exports"
    folder.mkdir()
    return folder


def _files(folder: Path) -> list[Path]:
    return list(folder.iterdir())


async def test_a_process_that_was_overtaken_does_not_take_the_new_message_of_its_successor_back(
    store: Store,
) -> None:
    (old,) = await letters(store, 1)
    office = desk(store)
    started = await office.start(redrive(to_queue="billing"))
    operation = (await run_to(office, started.id, lambda seen: seen.operation.frozen.total == 1)).operation
    frozen = await records.read_chunk(store, started.id, 0)
    slow = SlowStore(store, "remove", lambda: office.wait(started.id))
    await move(cast(Store, slow), {}, operation, frozen, None)
    assert (await office.show(started.id)).moved == 1
    assert (await account(store, new_id(operation, LetterKey(old, 0)))).state is State.WAITING
    assert await work(store, queue="billing") == 1


async def test_of_two_operations_that_replace_one_letter_at_once_one_message_stays(store: Store) -> None:
    await letters(store, 1)
    office = desk(store)
    first, second = [await office.start(redrive(to_queue="billing")) for _ in range(2)]
    operation = (await run_to(office, first.id, lambda seen: seen.operation.frozen.total == 1)).operation
    await run_to(office, second.id, lambda seen: seen.operation.frozen.total == 1)
    frozen = await records.read_chunk(store, first.id, 0)
    slow = SlowStore(store, "remove", lambda: office.wait(second.id))
    await move(cast(Store, slow), {}, operation, frozen, None)
    assert (await office.show(second.id)).moved == 1
    assert await work(store, queue="billing") == 1
    assert (await counts(store, "billing")).scheduled == 0


async def test_a_frozen_list_stays_as_it_was_first_written(store: Store) -> None:
    ids = await letters(store, 5)
    office = desk(store)
    started = await office.start(redrive())
    await run_to(office, started.id, lambda seen: seen.operation.frozen.total == 5)
    discarded = await office.start(discard(Selection(ids=tuple(ids[:2]))))
    await office.wait(discarded.id)
    await _steps(store).freeze(started)
    seen = await office.wait(started.id)
    assert (seen.operation.state, seen.moved, seen.skipped) == (OperationState.FINISHED, 3, 2)
    assert seen.operation.frozen.hash == records.chained_hash(
        "", await records.read_chunk(store, started.id, 0)
    )


async def test_a_list_whose_writer_died_is_taken_as_it_was_written(store: Store) -> None:
    ids = await letters(store, 3)
    office = desk(store)
    started = await office.start(redrive())
    await _steps(store).freeze(started)
    await records.change(store, started.id, lambda _: started)
    discarded = await office.start(discard(Selection(ids=tuple(ids[:1]))))
    await office.wait(discarded.id)
    seen = await office.wait(started.id)
    assert (seen.operation.state, seen.moved, seen.skipped) == (OperationState.FINISHED, 2, 1)


async def test_an_export_that_was_cut_by_a_process_that_was_overtaken_fails(
    store: Store, tmp_path: Path
) -> None:
    await letters(store, 700)
    office = desk(store)
    folder = _folder(tmp_path)
    started = await office.start(Order(OperationKind.EXPORT, ORDERS, file=str(folder / "letters.jsonl")))
    seen = await run_to(office, started.id, lambda seen: seen.operation.frozen.total == 700)
    await run_to(office, started.id, lambda seen: seen.handled == 700)
    await _steps(store).move(seen.operation)
    ended = await office.wait(started.id)
    assert ended.operation.state is OperationState.FAILED
    assert "changed by another" in ended.operation.why
    assert _files(folder) == []


async def test_two_exports_to_one_name_do_not_mix(store: Store, tmp_path: Path) -> None:
    await letters(store, 700)
    office = desk(store)
    folder = _folder(tmp_path)
    order = Order(OperationKind.EXPORT, ORDERS, file=str(folder / "letters.jsonl"))
    first, second = await office.start(order), await office.start(order)
    for one in (first, second):
        await run_to(office, one.id, lambda seen: seen.handled == 500)
    assert (await office.wait(first.id)).operation.state is OperationState.FINISHED
    lost = (await office.wait(second.id)).operation
    assert (lost.state, "there already" in lost.why) == (OperationState.FAILED, True)
    (written,) = _files(folder)
    assert len(set(written.read_text().splitlines())) == 700
