"""A loop goes on whatever its step raises, and tells of trouble once."""

from __future__ import annotations

import asyncio

from redrive.core.errors import StoreUnavailable
from redrive.engine.runner import Runner
from redrive.telemetry.door import Telemetry
from redrive.telemetry.events import Event, LoopFailed, StoreBack, StoreTrouble


async def test_a_store_that_comes_back_is_told_once_each_way() -> None:
    told: list[Event] = []
    ended = asyncio.Event()
    errors: list[Exception] = [StoreUnavailable("gone"), StoreUnavailable("gone"), ValueError("a bug")]

    async def step() -> float:
        if errors:
            raise errors.pop(0)
        ended.set()
        return 60.0

    runner = Runner(Telemetry([told.append]))
    runner.start("claim orders", step)
    async with asyncio.timeout(10):
        await ended.wait()
    await runner.stop()
    assert [type(event) for event in told] == [StoreTrouble, LoopFailed, StoreBack]
    assert runner.healthy


async def test_three_failures_in_a_row_are_not_healthy() -> None:
    failing = asyncio.Event()
    failures = 0

    async def step() -> float:
        nonlocal failures
        failures += 1
        if failures == 4:
            failing.set()
        raise StoreUnavailable("gone")

    runner = Runner(Telemetry())
    runner.start("claim", step)
    async with asyncio.timeout(10):
        await failing.wait()
    assert not runner.healthy
    await runner.stop()
