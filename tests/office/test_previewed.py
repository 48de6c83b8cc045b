"""What an operation takes is what its preview counted, of every kind, whatever dies or comes back."""

from __future__ import annotations

from pathlib import Path

import pytest

from redrive.core.lifecycle import State
from redrive.core.store import Store
from redrive.office.operations import OperationError, OperationKind, OperationState, Order, Selection
from redrive.office.operations.operation import MANY
from tests.conformance.backends import Bench
from tests.conformance.makers import account, counts
from tests.office.desks import ORDERS, desk, discard, letters, redrive, run_to, work

KINDS = [OperationKind.REDRIVE, OperationKind.DISCARD, OperationKind.ARCHIVE, OperationKind.EXPORT]


def _order(kind: OperationKind, folder: Path) -> Order:
    file = {OperationKind.ARCHIVE: str(folder / "kept"), OperationKind.EXPORT: str(folder / "letters.jsonl")}
    return Order(kind, ORDERS, expired=True, file=file.get(kind))


@pytest.mark.parametrize("kind", KINDS)
async def test_what_dies_after_the_preview_is_not_taken(
    store: Store, bench: Bench, tmp_path: Path, kind: OperationKind
) -> None:
    await letters(store, 2)
    office, order = desk(store), _order(kind, tmp_path)
    found = await office.preview(order)
    bench.advance(0.2)
    await letters(store, 3)
    seen = await office.wait((await office.start(order.as_previewed(found.as_of, found.count))).id)
    assert (seen.operation.frozen.total, seen.moved) == (2, 2)
    assert (await counts(store)).dlq == (5 if kind is OperationKind.EXPORT else 3)


async def test_a_preview_of_few_never_lets_many_go_at_once(store: Store, bench: Bench) -> None:
    await letters(store, 2)
    office = desk(store)
    found = await office.preview(Order(OperationKind.REDRIVE, ORDERS))
    assert (found.order.canary, found.order.pace) == (0, None)
    bench.advance(0.2)
    await letters(store, 3 * MANY)
    started = await office.start(found.order.as_previewed(found.as_of, found.count))
    assert (await office.wait(started.id)).moved == 2
    assert await work(store) == 2


async def test_what_came_back_from_a_discard_does_not_add_to_what_was_counted(
    store: Store, bench: Bench
) -> None:
    ids = await letters(store, 4)
    office = desk(store)
    await office.wait((await office.start(discard(Selection(ids=tuple(ids[:2]))))).id)
    found = await office.preview(discard())
    undone = Order(OperationKind.UNDISCARD, Selection(ids=tuple(ids[:2])), expired=True)
    await office.wait((await office.start(undone)).id)
    bench.advance(0.2)
    seen = await office.wait((await office.start(discard().as_previewed(found.as_of, found.count))).id)
    assert (found.count, seen.moved, (await counts(store)).dlq) == (2, 2, 2)


async def test_what_was_discarded_after_the_preview_stays_discarded(store: Store, bench: Bench) -> None:
    first, *others = await letters(store, 3)
    (mail,) = await letters(store, 1, queue="mails")
    (later,) = await letters(store, 1, queue="aaa")
    office, order = desk(store), Order(OperationKind.UNDISCARD, expired=True)
    await office.wait((await office.start(discard(Selection(ids=(first, mail))))).id)
    found = await office.preview(order)
    bench.advance(5)
    late = await letters(store, 1, queue="aaa")
    after = discard(Selection(ids=(*others, later, *late)))
    await office.wait((await office.start(after)).id)
    seen = await office.wait((await office.start(order.as_previewed(found.as_of, found.count))).id)
    assert (found.count, seen.moved) == (2, 2)
    assert [(await account(store, one)).state for one in (first, mail)] == [State.DEAD, State.DEAD]
    assert {(await account(store, one)).state for one in (*others, later, *late)} == {State.REMOVED}


async def test_a_named_letter_that_died_again_after_the_preview_is_told_as_gone(
    store: Store, bench: Bench
) -> None:
    (letter,) = await letters(store, 1)
    office, order = desk(store), redrive(Selection(ids=(letter,)))
    found = await office.preview(order)
    bench.advance(0.2)
    await office.wait((await office.start(redrive(Selection(ids=(letter,))))).id)
    await work(store, lambda _: False)
    seen = await office.wait((await office.start(order.as_previewed(found.as_of, found.count))).id)
    assert (seen.moved, seen.operation.frozen.gone) == (0, 1)
    assert (await account(store, letter)).state is State.DEAD


async def test_ages_and_days_mean_what_they_meant_when_it_was_previewed(store: Store, bench: Bench) -> None:
    await letters(store, 2)
    bench.advance(7_200)
    await letters(store, 3)
    office, order = desk(store), discard(Selection(filter="age:>1h"))
    found = await office.preview(order)
    bench.advance(7_200)
    started = await office.start(order.as_previewed(found.as_of, found.count))
    assert (found.count, (await office.wait(started.id)).moved) == (2, 2)


async def test_a_one_time_letter_that_expired_after_the_preview_stays(store: Store, bench: Bench) -> None:
    await letters(store, 1, ttl_s=600.0)
    office = desk(store)
    found = await office.preview(redrive())
    bench.advance(1_200)
    started = await office.start(redrive().as_previewed(found.as_of, found.count))
    seen = await run_to(office, started.id, lambda one: one.operation.state is OperationState.FINISHED)
    assert (found.count, seen.moved, seen.operation.frozen.expired) == (1, 0, 1)


async def test_the_audit_says_of_which_instant_and_how_many(store: Store) -> None:
    await letters(store, 2)
    office = desk(store)
    found = await office.preview(discard())
    asked = discard().as_previewed(found.as_of, found.count).asked()
    assert (asked["asOf"], asked["counted"]) == (found.as_of, 2)


@pytest.mark.parametrize("wrong", [{"as_of": -1}, {"counted": -1}])
def test_an_instant_or_count_below_zero_is_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(OperationError, match="preview"):
        Selection(**wrong)  # type: ignore[arg-type]


async def test_an_instant_that_is_still_to_come_is_now(store: Store, bench: Bench) -> None:
    await letters(store, 1)
    office = desk(store)
    started = await office.start(discard(Selection(as_of=store.now() + 3_600_000)))
    bench.advance(5)
    await letters(store, 1)
    assert (await office.wait(started.id)).moved == 1
