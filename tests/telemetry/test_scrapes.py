"""Real processes, scraped: counters survive a killed worker, and a store that is down stops nothing."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from redrive import Redrive, Submission
from redrive.office.access import Access, Role
from redrive.office.audit import Actor
from redrive.web.server import serve
from redrive.wiring import load
from tests.cli.processes import ENVIRONMENT, started
from tests.servers import free_port, start_redis
from tests.waiting import wait_until

APP = """
from redrive import Redrive
app = Redrive()
@app.handler("orders")
async def charge(order): ...
"""


def counter(text: str, name: str, **labels: str) -> float:
    """A sample, or 0 where there is none yet."""
    for family in text_string_to_metric_families(text):
        for one in family.samples:
            if one.name == name and labels.items() <= one.labels.items():
                return one.value
    return 0.0


@contextlib.asynccontextmanager
async def scraping(app: Redrive) -> AsyncIterator[httpx.AsyncClient]:
    """The API of an app in this process, with a key that may scrape."""
    _, key = await Access(app.store, Actor("ana", "test")).create(Role.VIEWER, None, "prometheus")
    async with (
        serve(app, "127.0.0.1:0") as running,
        httpx.AsyncClient(base_url=running.url, headers={"Authorization": f"Bearer {key}"}) as client,
    ):
        yield client


@pytest.mark.parametrize("backend", ["sqlite", "redis"])
async def test_counters_of_a_worker_that_is_killed_and_started_again_never_fall(
    backend: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    store = f"sqlite:///{tmp_path}/redrive.db"
    if backend == "redis":
        store = f"{request.getfixturevalue('redis_url')}?prefix=scrapes:{tmp_path.name}"
    (tmp_path / "shop.py").write_text(APP)
    flags = ("worker", "shop:app", "--json", "--store", store)
    async with Redrive(settings=load({"store": store})) as app, scraping(app) as client:

        async def done() -> float:
            text = (await client.get("/metrics")).text
            return counter(text, "redrive_messages_done_total", queue="orders")

        seen = []
        for round_number in (1, 2):
            await app.submit_many("orders", [Submission({})] * 10)
            with started(tmp_path, *flags):
                wanted = 10 * round_number

                async def reached(wanted: int = wanted) -> bool:
                    seen.append(await done())
                    return seen[-1] >= wanted

                await wait_until(reached, 60, f"{wanted} are done and counted")
        assert seen == sorted(seen)
        assert await done() == 20


async def test_a_store_that_is_down_fails_scrapes_and_neither_the_worker_nor_its_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    port, listen = free_port(), f"127.0.0.1:{free_port()}"
    server = start_redis(tmp_path, port=port)
    store = f"redis://127.0.0.1:{port}/0"
    (tmp_path / "shop.py").write_text(APP)
    monkeypatch.setitem(ENVIRONMENT, "REDRIVE_METRICS", listen)

    async def scrape(client: httpx.AsyncClient) -> tuple[int, float]:
        try:
            response = await client.get(f"http://{listen}/metrics", timeout=30)
        except httpx.TransportError:
            return 0, 0.0
        text = response.text if response.status_code == 200 else ""
        return response.status_code, counter(text, "redrive_messages_done_total", queue="orders")

    try:
        with started(tmp_path, "worker", "shop:app", "--json", "--store", store) as process:
            async with Redrive(settings=load({"store": store})) as app, httpx.AsyncClient() as client:

                async def answers(status: int, done: int) -> bool:
                    return await scrape(client) == (status, done)

                await app.submit_many("orders", [Submission({})] * 5)
                await wait_until(lambda: answers(200, 5), 60, "five are counted")
                server.stop()
                await wait_until(lambda: answers(503, 0), 60, "a scrape says that the store is down")
                server = start_redis(tmp_path, port=port)
                await app.submit_many("orders", [Submission({})] * 5)
                await wait_until(lambda: answers(200, 10), 60, "the other five are counted too")
            assert process.poll() is None
    finally:
        server.stop()
