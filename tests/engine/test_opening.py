"""Openings are counted: nobody closes the store under a worker, and a worker that cannot work ends."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest
from msgspec.structs import force_setattr

from redrive import Redrive
from redrive.core.errors import WorkerFailed
from redrive.core.lifecycle import State
from redrive.telemetry.events import Completed, StoreTrouble, WorkerStopped

from .conftest import Events, MakeApp, working


async def test_an_app_that_a_handler_opens_and_closes_stays_open_for_its_worker(each_app: Redrive) -> None:
    begun: Counter[str] = Counter()

    @each_app.handler("orders", concurrency=5)
    async def handle(name: str) -> None:
        begun[name] += 1
        async with each_app:
            await each_app.submit("after", name)

    @each_app.handler("after")
    async def after(name: str) -> None:
        begun[f"after {name}"] += 1

    async with working(each_app, survives=True) as events:
        for number in range(20):
            await each_app.submit("orders", f"{number}")
        await events.wait_for(Completed, 40)
    assert (len(begun), set(begun.values())) == (40, {1})
    assert events.of(StoreTrouble) == []


async def test_closing_while_a_worker_runs_is_done_when_it_has_ended(make_app: MakeApp) -> None:
    app = make_app()
    ran = asyncio.Event()

    @app.handler("orders")
    async def handle(number: int) -> None:
        await app.close()
        ran.set()

    await app.open()
    message = await app.submit("orders", 1)
    store = app.store
    async with working(app, survives=True) as events:
        async with asyncio.timeout(20):
            await ran.wait()
        await app.close()
        await events.wait_for(Completed)
        account = await store.get(message.id)
        assert account is not None
        assert account.state is State.DONE
    assert len(events.of(WorkerStopped)) == 1
    with pytest.raises(RuntimeError, match="not open"):
        _ = app.store


async def test_openings_beside_one_another_end_with_the_last(make_app: MakeApp) -> None:
    app = make_app()
    async with app:
        async with app:
            store = app.store
        assert app.store is store
        await app.submit("orders", 1)
    with pytest.raises(RuntimeError, match="not open"):
        _ = app.store


async def test_a_thread_with_a_loop_of_its_own_has_a_store_of_its_own(app: Redrive) -> None:
    begun: Counter[str] = Counter()

    async def submit(name: str) -> None:
        async with app:
            await app.submit("after", name)

    @app.handler("orders")
    def handle(name: str) -> None:
        begun[name] += 1
        asyncio.run(submit(name))

    @app.handler("after")
    async def after(name: str) -> None:
        begun[f"after {name}"] += 1

    store = app.store
    async with working(app, survives=True) as events:
        for number in range(5):
            await app.submit("orders", f"{number}")
        await events.wait_for(Completed, 10)
        assert app.store is store
    assert (len(begun), set(begun.values())) == (10, {1})


async def test_a_worker_whose_store_is_closed_under_it_ends_with_an_error(each_app: Redrive) -> None:
    settings = each_app.settings
    force_setattr(settings.worker, "give_up_s", 0.2)
    force_setattr(settings.worker, "lease_s", 1.0)

    @each_app.handler("orders")
    async def handle(number: int) -> None: ...

    await each_app.submit("orders", 1)
    events = Events(each_app)
    task = asyncio.create_task(each_app.run(signals=False))
    await events.wait_for(Completed)
    await each_app.store.close()
    async with asyncio.timeout(30):
        with pytest.raises(WorkerFailed, match="start it again"):
            await task
