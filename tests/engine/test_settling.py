"""What the store refuses is asked again while the lease is held, and never holds back its neighbours.

Rights go and come by the server's own ACL; a SQLite file refuses by a trigger that another program makes.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import apsw
import pytest

from redrive import Redrive, RetryPolicy, Submission, Temporary
from redrive.core.lifecycle import State
from redrive.engine.settler import Settler
from redrive.telemetry.events import (
    Buried,
    Completed,
    Event,
    LoopFailed,
    RetryScheduled,
    SettleRefused,
    StoreBack,
    StoreTrouble,
)
from tests.servers import ask, start_redis
from tests.waiting import wait_until

from .conftest import Events, MakeApp, working

LEASE_S = 2.0
LONG_LEASE_S = 60.0
Refusing = Callable[[], None]


class Site:
    """An app, and a way to have its store refuse every settlement, and take them again."""

    def __init__(self, app: Redrive, refuse: Callable[[], None], allow: Callable[[], None]) -> None:
        self.app, self.refuse, self.allow = app, refuse, allow


@pytest.fixture
async def redis_site(tmp_path: Path, make_app: MakeApp) -> AsyncIterator[Site]:
    server = start_redis(tmp_path)
    ask(server.port, "ACL", "SETUSER", "worker", "on", ">secret", "~*", "&*", "+@all")
    store = f"redis://worker:secret@127.0.0.1:{server.port}/0"
    try:
        async with make_app(store=store, **{"worker.lease_s": LONG_LEASE_S}) as app:
            yield Site(
                app,
                lambda: _rights(server.port, "-evalsha", "-eval"),
                lambda: _rights(server.port, "+evalsha", "+eval"),
            )
    finally:
        server.stop()


def _rights(port: int, *rights: str) -> None:
    assert ask(port, "ACL", "SETUSER", "worker", *rights) == b"+OK\r\n"


@pytest.fixture
async def sqlite_site(tmp_path: Path, make_app: MakeApp) -> AsyncIterator[Site]:
    async with _sqlite_site(tmp_path, make_app, LONG_LEASE_S) as made:
        yield made


@pytest.fixture
async def lapsing_site(tmp_path: Path, make_app: MakeApp) -> AsyncIterator[Site]:
    """One whose leases are as short as a test can wait for."""
    async with _sqlite_site(tmp_path, make_app, LEASE_S) as made:
        yield made


@asynccontextmanager
async def _sqlite_site(tmp_path: Path, make_app: MakeApp, lease_s: float) -> AsyncIterator[Site]:
    path = tmp_path / "redrive.db"

    def refuse() -> None:
        # A claim sets a lease, a settlement takes it away.
        _run(path, "create trigger refuse before update on messages when new.lease is null", "abort")

    async with make_app(**{"worker.lease_s": lease_s}) as app:
        yield Site(app, refuse, lambda: _run(path, "drop trigger refuse"))


def _run(path: Path, statement: str, body: str = "") -> None:
    connection = apsw.Connection(str(path))
    connection.set_busy_timeout(10_000)
    tail = " begin select raise(abort, 'refused'); end" if body else ""
    connection.execute(statement + tail)
    connection.close()


@pytest.fixture(params=["sqlite", "redis"])
def site(request: pytest.FixtureRequest) -> Site:
    found: Site = request.getfixturevalue(f"{request.param}_site")
    return found


async def test_settlements_that_are_refused_for_a_while_are_repeated_and_nothing_runs_twice(
    site: Site,
) -> None:
    begun: Counter[int] = Counter()
    go_on, many = asyncio.Event(), asyncio.Event()

    @site.app.handler("orders", concurrency=40, retry=RetryPolicy(attempts=1))
    async def handle(number: int) -> None:
        begun[number] += 1
        if len(begun) == 40:
            many.set()
        await go_on.wait()
        if number % 2:
            raise Temporary("odd")

    ids = [(await site.app.submit("orders", number)).id for number in range(40)]
    async with working(site.app) as events:
        async with asyncio.timeout(30):
            await many.wait()
        site.refuse()
        go_on.set()
        await wait_until(lambda: bool(_of_settling(events, StoreTrouble)), 30, "an outcome is refused")
        site.allow()
        await events.wait_for(Completed, 20)
        await events.wait_for(Buried, 20)
    assert len(_of_settling(events, StoreTrouble)) == 1
    assert _of_settling(events, StoreBack)
    assert (set(begun.values()), events.of(SettleRefused)) == ({1}, [])
    for number, message_id in enumerate(ids):
        account = await site.app.store.get(message_id)
        assert account is not None
        assert account.state is (State.DEAD if number % 2 else State.DONE)


def _of_settling(events: Events, kind: type[Event]) -> list[Event]:
    """Claims and the keeper are refused too, where the store refuses everything."""
    return [event for event in events.of(kind) if "settle" in str(event)]


@contextmanager
def _trigger(path: Path, statement: str) -> Iterator[None]:
    _run(path, f"create trigger poison {statement}", "abort")
    yield
    _run(path, "drop trigger poison")


async def test_a_failure_that_the_store_cannot_keep_becomes_a_plain_one(
    lapsing_site: Site, tmp_path: Path
) -> None:
    begun: Counter[str] = Counter()

    @lapsing_site.app.handler("orders", retry=RetryPolicy(attempts=2, base_s=0.01, cap_s=0.02))
    async def handle(name: str) -> None:
        begun[name] += 1
        if name == "poison":
            raise Temporary("poison")

    poison = await lapsing_site.app.submit("orders", "poison")
    statement = "before insert on failures when new.reason like '%poison%'"
    with _trigger(tmp_path / "redrive.db", statement):
        async with working(lapsing_site.app) as events:
            for number in range(20):
                await lapsing_site.app.submit("orders", f"good {number}")
            await events.wait_for(Completed, 20)
            await events.wait_for(RetryScheduled)
            await events.wait_for(Buried)
    account = await lapsing_site.app.store.get(poison.id)
    assert account is not None
    assert (account.state, begun["poison"]) == (State.DEAD, 2)
    assert all("refused to keep how" in failure.reason for failure in account.failures)
    assert set(begun.values()) == {1, 2}


async def test_a_settlement_that_is_never_taken_is_given_up_and_comes_back_as_lost(
    lapsing_site: Site, tmp_path: Path
) -> None:
    begun: Counter[str] = Counter()

    @lapsing_site.app.handler("orders")
    async def handle(name: str) -> None:
        begun[name] += 1

    poison = await lapsing_site.app.submit("orders", "poison")
    statement = f"before update on messages when new.lease is null and new.id = '{poison.id}'"
    async with working(lapsing_site.app) as events:
        with _trigger(tmp_path / "redrive.db", statement):
            await events.wait_for(StoreTrouble)
            number = 0
            while not events.of(LoopFailed):
                number += 1
                await lapsing_site.app.submit("orders", f"good {number}")
                await events.wait_for(Completed, number)
        await events.wait_for(Completed, number + 1)
    assert begun["poison"] == 2
    assert {count for name, count in begun.items() if name != "poison"} == {1}


async def test_a_worker_does_not_run_on_while_the_store_takes_no_outcomes(
    tmp_path: Path, make_app: MakeApp
) -> None:
    begun: Counter[int] = Counter()

    async with make_app(**{"worker.batch": 5, "worker.lease_s": 30.0}) as app:

        @app.handler("orders", concurrency=5)
        async def handle(number: int) -> None:
            begun[number] += 1

        await app.submit_many("orders", [Submission(number) for number in range(400)])
        path = tmp_path / "redrive.db"
        _run(path, "create trigger refuse before update on messages when new.lease is null", "abort")
        async with working(app) as events:
            await wait_until(lambda: _is_full(app), 60, "too many outcomes wait")
            stood_at, passes = len(begun), _settler(app)._passes
            await wait_until(lambda: _settler(app)._passes > passes + 1, 60, "they were refused again")
            assert len(begun) == stood_at
            _run(path, "drop trigger refuse")
            await events.wait_for(Completed, 400)
    assert 20 <= stood_at <= 40
    assert set(begun.values()) == {1}


def _settler(app: Redrive) -> Settler:
    worker = app._work._worker
    assert worker is not None
    return worker._settler


def _is_full(app: Redrive) -> bool:
    """Whether four batches of outcomes wait and are all that is held: no claim is under way, nothing runs."""
    worker = app._work._worker
    return worker is not None and worker._slots.held == worker._settler.unsettled >= 4 * 5
