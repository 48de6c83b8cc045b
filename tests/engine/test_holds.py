"""A hold stops a tenant's lane with one alert, one probe at a time, and nothing buried."""

from __future__ import annotations

from datetime import timedelta

from redrive import Redrive
from redrive.core.errors import Hold
from redrive.core.lanes import LaneState
from redrive.core.verdict import PROBE_S
from redrive.telemetry.events import Completed, LaneHeld
from redrive.testing import Clock, dead_letters, run_until_idle

from .conftest import working


async def test_a_hold_counts_no_attempt_and_buries_nothing(app: Redrive) -> None:
    clock = Clock(app)
    password = ["old"]
    runs: list[int] = []

    @app.handler("mail")
    async def handle(number: int) -> None:
        runs.append(number)
        if password[0] == "old":
            raise Hold("535 authentication failed", code="535")

    for number in range(20):
        await app.submit("mail", number, tenant="acme")
    await run_until_idle(app)
    lane = await app.store.lane("mail", "acme")
    assert lane is not None
    assert (lane.state, lane.held_reason, lane.waiting) == (LaneState.HELD, "535 authentication failed", 20)
    held = len(runs)
    clock.advance(timedelta(seconds=PROBE_S * 1.3))
    assert await run_until_idle(app) == {"held": 1}
    assert len(runs) == held + 1
    password[0] = "new"
    clock.advance(timedelta(seconds=PROBE_S * 1.3))
    assert await run_until_idle(app) == {"done": 20}
    assert await dead_letters(app) == []
    lane = await app.store.lane("mail", "acme")
    assert lane is not None
    assert (lane.state, lane.held_reason, lane.probe_at) == (LaneState.RUNNING, None, None)


async def test_another_tenant_goes_on_and_the_hold_is_told_once(app: Redrive) -> None:
    @app.handler("mail")
    async def handle(payload: str) -> None:
        if payload == "bad":
            raise Hold("sender not verified")

    async with working(app) as events:
        for _ in range(10):
            await app.submit("mail", "bad", tenant="acme")
            await app.submit("mail", "good", tenant="globex")
        await events.wait_for(LaneHeld)
        await events.wait_for(Completed, 10)
    assert len(events.of(LaneHeld)) == 1
