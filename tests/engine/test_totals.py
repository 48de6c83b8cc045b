"""Totals of what happened: right with many processes and after restarts, and never in the way of the work."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from redrive import Permanent, Redrive, Submission, Temporary
from redrive.core.errors import StoreUnavailable
from redrive.core.store import Store
from redrive.core.totals import Flow, Total, TotalsBatch
from redrive.engine.totals import TotalsDuty
from redrive.stores.sqlite import SqliteStore
from redrive.telemetry.events import Buried, Completed, Event, RetryScheduled
from tests.engine.conftest import MakeApp, working
from tests.servers import free_port, start_redis
from tests.waiting import wait_until

PROGRAM = """
import asyncio, sys
from redrive import Redrive, Submission
app = Redrive({store!r})
@app.handler("orders")
async def charge(order): ...
async def main():
    {main}
asyncio.run(main())
"""


async def flows(store: Store) -> Counter[str]:
    return Counter({one.name.value: one.count for one in await store.totals() if isinstance(one.name, Flow)})


def run_program(folder: Path, store: str, main: str) -> subprocess.Popen[bytes]:
    text = PROGRAM.format(store=store, main=main)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("REDRIVE_")}
    return subprocess.Popen([sys.executable, "-c", text], cwd=folder, env=environment)


async def _handle(payload: str) -> None:
    match payload:
        case "dead":
            raise Permanent("no such order", code="E404")
        case "again":
            raise Temporary("busy")


async def test_what_a_worker_did_is_in_the_store_when_it_has_ended(each_app: Redrive) -> None:
    each_app.handler("orders")(_handle)
    words = ["done"] * 7 + ["dead"] * 2 + ["again"]
    async with working(each_app) as told:
        await each_app.submit_many("orders", [Submission(word) for word in words])
        await told.wait_for(Completed, 7)
        await told.wait_for(Buried, 2)
        await told.wait_for(RetryScheduled)
        await wait_until(lambda: _has(each_app.store, "dead", 2), 10, "the totals are in the store")
    found = await flows(each_app.store)
    assert (found["accepted"], found["done"], found["dead"]) == (10, 7, 2)
    assert found["retried"] >= 1
    (minute, *more) = await each_app.store.minutes("orders", 0)
    assert sum(one.done for one in (minute, *more)) == 7


async def _has(store: Store, name: str, count: int) -> bool:
    return (await flows(store))[name] >= count


@pytest.mark.parametrize("backend", ["sqlite", "redis"])
async def test_two_processes_and_a_restart_add_up(
    backend: str, request: pytest.FixtureRequest, make_app: MakeApp, tmp_path: Path
) -> None:
    store = f"sqlite:///{tmp_path}/redrive.db"
    if backend == "redis":
        store = f"{request.getfixturevalue('redis_url')}?prefix=totals:{tmp_path.name}"
    submit = 'async with app: await app.submit_many("orders", [Submission({}) for _ in range(25)])'
    for _ in range(2):
        programs = [run_program(tmp_path, store, submit) for _ in range(2)]
        assert [program.wait(60) for program in programs] == [0, 0]
    async with make_app(store=store) as app:
        assert await flows(app.store) == {"accepted": 100}
        program = run_program(tmp_path, store, "await app.run()")
        try:
            await wait_until(lambda: _has(app.store, "done", 100), 60, "all is done and counted")
            program.send_signal(signal.SIGTERM)
            assert program.wait(60) == 0
        finally:
            program.kill()
            program.wait()
        assert await flows(app.store) == {"accepted": 100, "done": 100}


async def test_a_program_that_never_closes_its_app_counts_too(tmp_path: Path, make_app: MakeApp) -> None:
    program = run_program(tmp_path, f"sqlite:///{tmp_path}/redrive.db", 'await app.submit("orders", {})')
    assert program.wait(60) == 0
    async with make_app() as app:
        assert await flows(app.store) == {"accepted": 1}


async def test_without_the_sink_nothing_is_counted(make_app: MakeApp) -> None:
    async with make_app(**{"telemetry.sinks": "logs"}) as app:
        await app.submit("orders", {})
    async with make_app() as app:
        assert await app.store.totals() == []


async def test_a_store_that_was_down_loses_no_count_and_stops_no_work(
    make_app: MakeApp, tmp_path: Path
) -> None:
    port = free_port()
    server = start_redis(tmp_path, port=port)
    app = make_app(store=f"redis://127.0.0.1:{port}/0", **{"worker.lease_s": 2.0})
    app.handler("orders")(_handle)
    try:
        async with app, working(app) as told:
            await app.submit_many("orders", [Submission("done")] * 5)
            await told.wait_for(Completed, 5)
            server.stop()
            server = start_redis(tmp_path, port=port)
            await app.submit_many("orders", [Submission("done")] * 5)
            await told.wait_for(Completed, 10)
            await wait_until(lambda: _has(app.store, "done", 10), 20, "all is counted")
            assert await flows(app.store) == {"accepted": 10, "done": 10}
    finally:
        server.stop()


async def test_a_sink_that_fails_stops_nothing(make_app: MakeApp) -> None:
    def broken(_: Event) -> None:
        raise ValueError("a bug")

    app = make_app()
    app.telemetry.add(broken)
    app.handler("orders")(_handle)
    async with app, working(app) as told:
        await app.submit("orders", "done")
        await told.wait_for(Completed)


class LosesAnswers(SqliteStore):
    """A store that takes what was counted, and whose first answers get lost."""

    lost = 2

    async def add_totals(self, batch: TotalsBatch) -> None:
        await super().add_totals(batch)
        self.lost -= 1
        if self.lost >= 0:
            raise StoreUnavailable("no answer")


def counting(*counts: int) -> Callable[[], tuple[Total, ...]]:
    left = [(Total(Flow.DONE, "orders", "", count),) for count in counts]
    return lambda: left.pop(0) if left else ()


async def test_what_was_not_answered_is_handed_over_again_and_counts_once(tmp_path: Path) -> None:
    store = LosesAnswers(tmp_path / "redrive.db")
    await store.open()
    duty = TotalsDuty(store, counting(3, 4))
    for _ in range(2):
        with pytest.raises(StoreUnavailable):
            await duty.flush()
    await duty.flush()
    assert await flows(store) == {"done": 7}
    await store.close()


async def test_closing_goes_on_when_the_store_does_not_take_the_rest(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = SqliteStore(tmp_path / "redrive.db")
    await store.open()
    await store.close()
    duty = TotalsDuty(store, counting(1))
    duty.start()
    await duty.close()
    assert caplog.text == ""
