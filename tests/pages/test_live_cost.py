"""What a live page costs the store while everything changes all the time."""

from __future__ import annotations

import inspect
import re
from collections import Counter
from pathlib import Path
from typing import Any

import httpx
import pytest

from redrive import Submission
from redrive.core.limits import Rate
from redrive.office.access import Access, Role
from redrive.office.audit import Actor
from redrive.office.index import Index
from redrive.office.operations import OperationKind, Order, Selection
from redrive.stores.sqlite import SqliteStore
from redrive.testing import run_until_idle
from redrive.web.access import Rates
from redrive.web.pages import live, overview
from redrive.web.server import serve
from tests.pages.forms import sign_in
from tests.pages.shop import ORDERS, make_app

QUEUES = 12
MANY = Rate(1_000_000, 60.0)
LIVE = re.compile(r'data-live="(?P<stream>[^"]+)" data-pause="(?P<pause_s>\d+)"')
PATHS = (
    *("/", "/letters", "/letters?view=letters", "/letters?view=ages", "/messages", "/queues"),
    *(f"/queues/{ORDERS}", "/tenants", "/operations", "/alerts", "/mail"),
)
WRITTEN_NOW_AND_THEN = {"add_totals"}  # by the app itself, whoever looks at what


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often each verb of the store, and its index, is asked."""
    counted: Counter[str] = Counter()
    for name, verb in vars(SqliteStore).items():
        if (
            inspect.iscoroutinefunction(verb)
            and not name.startswith("_")
            and name not in WRITTEN_NOW_AND_THEN
        ):
            monkeypatch.setattr(SqliteStore, name, counting(name, verb, counted))
    monkeypatch.setattr(Index, "read", counting("index", Index.read, counted))
    monkeypatch.setattr(overview, "_FRESH_S", 0.0)
    return counted


def counting(name: str, verb: Any, counted: Counter[str]) -> Any:
    async def ask(*arguments: Any, **more: Any) -> Any:
        counted[name] += 1
        return await verb(*arguments, **more)

    return ask


async def test_an_open_page_costs_the_store_less_than_five_reads_a_second(
    tmp_path: Path, reads: Counter[str]
) -> None:
    app = make_app(tmp_path, set())
    async with app, serve(app, "127.0.0.1:0", rates=Rates(MANY, MANY)) as server:
        await app.submit_many(ORDERS, [Submission({"cause": "address"}) for _ in range(3)])
        for number in range(QUEUES):
            await app.submit(f"other-{number}", {})
        await run_until_idle(app)
        acting = app.office.acting(Actor("test", "test"))
        order = Order(OperationKind.REDRIVE, Selection(filter=f"queue:{ORDERS}"), canary=0, rate="1/h")
        started = await acting.operations.start(order)
        reads.clear()
        await acting.queues.parts()
        watching = {"/live/queues": reads.total() / live.QUEUES_S}
        reads.clear()
        await acting.operations.show(started.id)
        watching[f"/live/operations/{started.id}"] = reads.total() / live.OPERATION_S
        _, key = await Access(app.store, Actor("test", "test")).create(Role.VIEWER, None)
        async with httpx.AsyncClient(base_url=server.url, timeout=60) as client:
            await sign_in(client, key)
            paths = (*PATHS, f"/operations/{started.id}")
            cost = {path: await cost_of(client, path, reads, watching) for path in paths}
    assert {path: one for path, one in cost.items() if one >= 5} == {}


async def cost_of(
    client: httpx.AsyncClient, path: str, reads: Counter[str], watching: dict[str, float]
) -> float:
    """Reads a second: of who watches, and of the page that is read again as often as it may be."""
    found = LIVE.search((await client.get(path)).text)
    assert found is not None, path
    reads.clear()
    assert (await client.get(path)).status_code == 200
    return watching[found["stream"]] + reads.total() / int(found["pause_s"])
