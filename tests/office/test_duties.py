"""Duties: a running app carries operations on, and what one process should do is done by one."""

from __future__ import annotations

import asyncio
from pathlib import Path

from redrive.app import Redrive
from redrive.core.retry import RetryPolicy
from redrive.core.store import Store
from redrive.office.duties import DUTY_RECORDS, Duties
from redrive.office.leases import DutyLease
from redrive.office.operations import OperationState
from redrive.telemetry.events import Event, OperationEnded
from tests.conformance.backends import Bench
from tests.office.desks import desk, letters, make_office, redrive
from tests.waiting import wait_until

DAY_S = 86_400.0


def _duties(store: Store) -> Duties:
    policy = RetryPolicy()
    return Duties(make_office(store, policy=policy))


async def test_a_lease_is_one_holders_until_it_ends_or_is_given_back(store: Store, bench: Bench) -> None:
    first, second = (DutyLease(store, DUTY_RECORDS, "count", name, 10.0) for name in "ab")
    assert await first.hold()
    assert not await second.hold()
    bench.advance(5)
    assert await first.hold()
    bench.advance(7)
    assert not await second.hold()
    bench.advance(11)
    assert await second.hold()
    assert not await first.hold()
    await second.release()
    assert await first.hold()


async def test_a_holder_that_slept_past_its_lease_takes_it_again_when_nobody_did(
    store: Store, bench: Bench
) -> None:
    lease = DutyLease(store, DUTY_RECORDS, "count", "a", 10.0)
    assert await lease.hold()
    bench.advance(60)
    assert await lease.hold()


async def test_operations_are_forgotten_a_month_after_their_end(store: Store, bench: Bench) -> None:
    await letters(store, 2)
    office = desk(store)
    ended = await office.start(redrive())
    await office.wait(ended.id)
    forget = _duties(store).steps()["forget"]
    bench.advance(29 * DAY_S)
    await forget()
    assert [one.operation.id for one in (await office.list()).found] == [ended.id]
    paused = await office.start(redrive())
    await office.pause(paused.id)
    bench.advance(40 * DAY_S)
    await _duties(store).steps()["forget"]()
    await forget()
    assert [one.operation.id for one in (await office.list()).found] == [paused.id]
    assert await store.list_records("operation_letters") == []


async def test_a_running_app_conducts_what_others_started(tmp_path: Path) -> None:
    app = Redrive(f"sqlite:///{tmp_path}/redrive.db")
    ran: list[str] = []
    seen_events: list[Event] = []
    app.telemetry.add(seen_events.append)

    @app.handler("orders")
    async def handle(payload: dict[str, str]) -> None:
        ran.append("once")

    async with app:
        await letters(app.store, 3)
        office = desk(app.store)
        started = await office.start(redrive(canary=1))
        running = asyncio.create_task(app.run(signals=False))

        async def settled() -> bool:
            return (await office.show(started.id)).settled

        await wait_until(settled, 20, "the app has carried the operation out")
        seen = await office.show(started.id)
        running.cancel()
        await asyncio.wait([running])
    assert (seen.operation.state, seen.done, len(ran)) == (OperationState.FINISHED, 3, 3)
    assert OperationEnded(started.id, "redrive", "finished", 3, 3) in seen_events
