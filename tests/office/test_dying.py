"""An operation whose process dies at any call to the store is carried on, all of it once."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import pytest

from redrive.core.lifecycle import State
from redrive.core.store import Store
from redrive.office.audit import Query, read
from redrive.office.chain import verify
from redrive.office.operations import Operation, Operations, OperationState, Order, Selection
from redrive.office.operations.records import LIVE_RECORDS
from tests.conformance.backends import Bench
from tests.conformance.makers import account, counts, dead
from tests.office.desks import desk, discard, redrive
from tests.office.dying import Died, DyingStore

LETTERS = 3
CALLS = 80

Make = Callable[[tuple[str, ...]], Order]


def _redrive(ids: tuple[str, ...]) -> Order:
    return redrive(Selection(ids=ids))


def _discard(ids: tuple[str, ...]) -> Order:
    return discard(Selection(ids=ids))


def _replace(ids: tuple[str, ...]) -> Order:
    return redrive(Selection(ids=ids), to_queue="billing")


async def _run(office: Operations, order: Order) -> None:
    """Start and carry out, as far as the process lives."""
    started = await office.start(order)
    await office.wait(started.id)


async def _carry_on(store: Store, office: Operations, bench: Bench) -> None:
    """Another process finds what lives, once the lease of the dead one has ended."""
    bench.advance(61)
    for _ in range(20):
        await office.conductor.conduct()
        if not await store.list_records(LIVE_RECORDS):
            break
    await office.conductor.release()


@pytest.mark.parametrize(
    ("make", "state"), [(_redrive, State.WAITING), (_discard, State.REMOVED), (_replace, State.REMOVED)]
)
async def test_a_process_that_dies_at_any_call_loses_nothing_and_repeats_nothing(
    store: Store, bench: Bench, make: Make, state: State
) -> None:
    survivor = desk(store)
    for calls in range(1, CALLS):
        ids = tuple(await dead(store, LETTERS))
        known = {one.operation.id for one in (await survivor.list()).found}
        dying = DyingStore(store, calls)
        try:
            await _run(desk(cast(Store, dying)), make(ids))
        except Died:
            await _carry_on(store, survivor, bench)
        new = [one.operation for one in (await survivor.list()).found if one.operation.id not in known]
        await _check(store, survivor, new, ids, state)
        if not dying.dead:
            break
    else:
        pytest.fail(f"an operation of {LETTERS} letters takes more than {CALLS} calls")
    assert (await verify(store)).whole
    assert await store.list_records(LIVE_RECORDS) == []
    if make is _replace:
        billing = await counts(store, "billing")
        assert billing.pending + billing.scheduled == LETTERS * len((await survivor.list()).found)


async def _check(
    store: Store, office: Operations, new: list[Operation], ids: tuple[str, ...], state: State
) -> None:
    """Either the operation was never begun, or it has done all, once, and told it once."""
    states = [(await account(store, one)).state for one in ids]
    if not new:
        assert set(states) == {State.DEAD}
        return
    (operation,) = new
    seen = await office.show(operation.id)
    assert seen.operation.state is OperationState.FINISHED
    assert set(states) == {state}
    assert (seen.moved, seen.skipped) == (LETTERS, 0)
    rows = [row.document["row"] async for row in read(store, Query(action=operation.id))]
    assert rows == ["intent", "frozen", "outcome"]
