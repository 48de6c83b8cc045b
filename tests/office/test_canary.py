"""Canary and halt: the rest is moved only when those that went first came through."""

from __future__ import annotations

import pytest

from redrive.core.letters import OperationTally
from redrive.core.limits import Rate
from redrive.core.store import Store
from redrive.office.audit import Query, read
from redrive.office.documents.operations import preview_document
from redrive.office.operations import Operation, OperationKind, OperationState, Order, Selection
from redrive.office.operations.operation import NO_RATE, Frozen
from redrive.office.operations.rules import Go, Halt, Wait, judge, pace
from tests.conformance.backends import Bench
from tests.conformance.makers import counts
from tests.office.desks import desk, letters, redrive, run_to, step, work


async def test_a_failing_canary_of_five_leaves_the_rest_unmoved(store: Store) -> None:
    await letters(store, 40)
    office = desk(store)
    started = await office.start(redrive(canary=5))
    await run_to(office, started.id, lambda seen: seen.moved == 5)
    assert (await step(office, started.id, 5)).moved == 5
    await work(store, lambda message: False)
    seen = await office.wait(started.id)
    assert seen.operation.state is OperationState.HALTED
    assert seen.operation.why == ("5 of 5 that came back failed again, more than 20%; 35 were not moved")
    assert (seen.moved, seen.failed, seen.speed) == (5, 5, None)
    assert (await counts(store)).dlq == 40


async def test_a_canary_that_comes_through_lets_the_rest_go(store: Store) -> None:
    await letters(store, 40)
    office = desk(store)
    started = await office.start(redrive(canary=5))
    seen = await run_to(office, started.id, lambda seen: "waits for the outcome of 5" in seen.operation.why)
    assert seen.operation.state is OperationState.CANARY
    await work(store)
    seen = await office.wait(started.id)
    assert (seen.operation.state, seen.moved, seen.passed) == (OperationState.FINISHED, 40, 5)


async def test_many_letters_are_tried_first_and_go_at_a_rate_unless_it_is_said_otherwise(
    store: Store,
) -> None:
    ids = await letters(store, 21)
    office = desk(store)
    for order, canary, rate in (
        (Order(OperationKind.REDRIVE), 5, "20/s"),
        (Order(OperationKind.REDRIVE, Selection(ids=tuple(ids))), 5, "20/s"),
        (Order(OperationKind.REDRIVE, canary=0), 0, "20/s"),
        (Order(OperationKind.REDRIVE, rate=NO_RATE), 5, None),
        (Order(OperationKind.REDRIVE, Selection(limit=20)), 0, None),
    ):
        document = preview_document(await office.preview(order))
        assert (document.canary, document.rate) == (canary, rate)
        started = await office.start(order)
        document = office.document(await step(office, started.id))
        assert (document.canary, document.rate, document.state == "canary") == (canary, rate, canary > 0)
        await office.cancel(started.id)
    assert preview_document(await office.preview(Order(OperationKind.REDRIVE))).seconds == 1.05
    discarding = preview_document(await office.preview(Order(OperationKind.DISCARD)))
    assert (discarding.canary, discarding.rate) == (0, None)


async def test_the_audit_says_with_which_canary_and_rate_it_ran(store: Store) -> None:
    await letters(store, 21)
    started = await desk(store).start(Order(OperationKind.REDRIVE))
    await step(desk(store), started.id)
    rows = [row.document async for row in read(store, Query(action=started.id))]
    assert (rows[1]["result"]["canary"], rows[1]["result"]["rate"]) == (5, "20/s")


async def test_a_preview_counts_causes_by_code_and_reason_over_tenants_and_queues(store: Store) -> None:
    for tenant in ("acme", "globex"):
        for queue in ("orders", "mails"):
            await letters(store, 2, tenant=tenant, queue=queue)
    causes = preview_document(await desk(store).preview(Order(OperationKind.REDRIVE))).causes
    assert [(one.reason, one.count) for one in causes] == [("permanent", 8)]


async def test_a_canary_letter_that_another_had_moved_is_made_up_for(store: Store) -> None:
    ids = await letters(store, 10)
    office = desk(store)
    started = await office.start(redrive(canary=3))
    await step(office, started.id)
    taken = await desk(store).start(redrive(Selection(ids=tuple(ids[:2]))))
    await desk(store).wait(taken.id)
    seen = await run_to(office, started.id, lambda seen: seen.moved == 3)
    assert seen.skipped == 2
    assert (await step(office, started.id, 3)).moved == 3


async def test_a_rate_limited_redrive_halts_when_too_many_fail_again(store: Store, bench: Bench) -> None:
    await letters(store, 100)
    office = desk(store)
    started = await office.start(redrive(rate="100/s", halt_share=0.5, halt_least=10))
    await run_to(office, started.id, lambda seen: seen.moved > 0)
    bench.advance(1)
    assert 10 <= (await step(office, started.id)).moved < 50
    await work(store, lambda message: False)
    seen = await office.wait(started.id)
    assert seen.operation.state is OperationState.HALTED
    assert seen.moved < 100


async def test_a_halted_operation_resumes_with_a_new_canary_and_forgets_the_old_failures(
    store: Store,
) -> None:
    await letters(store, 20)
    office = desk(store)
    started = await office.start(redrive(canary=4))
    await run_to(office, started.id, lambda seen: seen.moved == 4)
    await work(store, lambda message: False)
    assert (await office.wait(started.id)).operation.state is OperationState.HALTED
    await office.resume(started.id)
    seen = await run_to(office, started.id, lambda seen: "waits" in seen.operation.why)
    assert seen.moved == 8
    await work(store)
    seen = await office.wait(started.id)
    assert (seen.operation.state, seen.moved, seen.failed) == (OperationState.FINISHED, 20, 4)


async def test_a_ramp_waits_after_ever_larger_parts(store: Store) -> None:
    await letters(store, 130)
    office = desk(store)
    started = await office.start(redrive(canary=1, ramp=True))
    seen_moved = []
    for _ in range(3):
        seen = await run_to(office, started.id, lambda seen: seen.operation.why.startswith("waits"))
        seen_moved.append(seen.moved)
        await work(store)
        await step(office, started.id)
    assert seen_moved == [1, 10, 100]
    assert (await office.wait(started.id)).moved == 130


def _operation(**more: object) -> Operation:
    order = Order(
        OperationKind.REDRIVE, **{name: more.pop(name) for name in ("canary", "ramp") if name in more}
    )  # type: ignore[arg-type]
    return Operation("1", order, "ana", "test", 0, 1, frozen=Frozen(total=100), **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("gate", "tally", "ruling"),
    [
        (None, OperationTally(), Go(None, None)),
        (None, OperationTally(moved=9, passed=1, failed=3), Go(None, None)),
        (None, OperationTally(moved=9, passed=4, failed=1), Go(None, None)),
        (None, OperationTally(moved=9, passed=3, failed=2), Halt),
        (5, OperationTally(), Go(5, 5)),
        (5, OperationTally(moved=3), Go(2, 5)),
        (5, OperationTally(moved=5, passed=4), Wait),
        (5, OperationTally(moved=5, passed=4, removed=1), Go(1, 5)),
        (5, OperationTally(moved=5, passed=4, failed=1), Go(None, None)),
        (1, OperationTally(moved=1, failed=1), Halt),
    ],
)
def test_what_came_back_decides_whether_more_may_go(
    gate: int | None, tally: OperationTally, ruling: object
) -> None:
    found = judge(_operation(gate=gate), tally)
    assert found == ruling if isinstance(ruling, Go) else isinstance(found, ruling)  # type: ignore[arg-type]


def test_a_rate_lets_letters_go_evenly_and_never_makes_up_for_a_long_stop() -> None:
    rate = Rate.parse("20/s")
    now, next_at, moved = 1_000_000, 0, 0
    for _ in range(1_000):
        grant = pace(rate, next_at, now, 500)
        moved, next_at, now = moved + grant.count, grant.next_at, now + 10
    assert 200 <= moved <= 206
    assert pace(rate, next_at, now + 3_600_000, 500).count <= 6
    assert pace(None, 0, now, 500).count == 500
