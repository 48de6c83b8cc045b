"""`python -m bench pages`: how long the dashboard takes to answer, on SQLite and on Redis.

Messages of 1 KB of 1,000 tenants: a tenth is dead, the others wait or are retries for later. Asked over HTTP
with a session, several times, and the median counts: the overview with its causes counted, the same again,
the letters at the beginning, the middle and near the end, and the groups.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
import time
from collections.abc import Sequence

import httpx

from bench import stores
from bench.goals import Below, Goal
from bench.lanes import schedule_retries
from bench.letters import bury_all
from bench.load import Figures
from bench.stores import STORES, median_s
from bench.subject import make_app, preload
from redrive import Redrive
from redrive.core.limits import Rate
from redrive.office.access import Access, Role
from redrive.office.audit import Actor
from redrive.web.access import Rates
from redrive.web.server import serve

MESSAGES, TENANTS = 1_000_000, 1_000
_PAGES = (20, 1_000)
_LETTERS = "/letters?view=letters"

GOALS = tuple(
    goal
    for store in STORES
    for goal in (
        Goal(f"{store}: the overview, causes counted", f"{store} first overview", "ms"),
        Goal(f"{store}: the overview", f"{store} overview", "ms", Below(100.0)),
        Goal(f"{store}: its length", f"{store} length", "KB", Below(150.0)),
        Goal(f"{store}: the first letters", f"{store} letters", "ms", Below(150.0)),
        Goal(f"{store}: letters in the middle", f"{store} middle", "ms", Below(150.0)),
        Goal(f"{store}: letters far down", f"{store} far", "ms", Below(150.0)),
        Goal(f"{store}: the groups", f"{store} groups", "ms"),
        Goal(f"{store}: tenant by age", f"{store} ages", "ms"),
    )
)


def run(arguments: Sequence[str]) -> int:
    """Measure, judge, print."""
    parser = stores.parser("pages", "How long pages take.")
    parser.add_argument("--messages", type=int, default=MESSAGES, help=f"messages ({MESSAGES:,})")
    parser.add_argument("--tenants", type=int, default=TENANTS, help=f"tenants ({TENANTS:,})")
    options = parser.parse_args(arguments)
    return stores.run("bench.pages", GOALS, options, messages=options.messages, tenants=options.tenants)


async def _measure(name: str, url: str, messages: int, tenants: int) -> Figures:
    await preload(url, messages // 10, tenants)
    await bury_all(url)
    await schedule_retries(url, 9 * messages // 20, tenants)
    await preload(url, 9 * messages // 20, tenants)
    many = Rate(1_000_000, 60.0)
    async with make_app(url) as app:
        await app.index.catch_up()
        async with (
            serve(app, "127.0.0.1:0", rates=Rates(many, many)) as server,
            httpx.AsyncClient(base_url=server.url, timeout=60) as client,
        ):
            await _sign_in(app, client)
            figures = await _look(client)
    return {f"{name} {figure}": value for figure, value in figures.items()}


async def _sign_in(app: Redrive, client: httpx.AsyncClient) -> None:
    _, key = await Access(app.store, Actor("bench", "bench")).create(Role.ADMIN, None)
    page = (await client.get("/sign-in")).text
    found = re.search(r'name="token" value="([^"]+)"', page)
    assert found is not None
    assert (await client.post("/sign-in", data={"token": found[1], "key": key})).status_code == 303


async def _look(client: httpx.AsyncClient) -> Figures:
    async def ask(path: str) -> httpx.Response:
        response = await client.get(path)
        assert response.status_code == 200, (path, response.status_code)
        return response

    async def fresh() -> None:
        await asyncio.sleep(1.1)  # what was read is kept for a second: this reads it again
        began_s = time.perf_counter()
        await ask("/")
        taken.append(time.perf_counter() - began_s)

    taken: list[float] = []
    began_s = time.perf_counter()
    first = await ask("/")
    first_s = time.perf_counter() - began_s
    for _ in range(7):
        await fresh()
    figures = {
        "first overview": 1000 * first_s,
        "overview": 1000 * sorted(taken)[len(taken) // 2],
        "length": len(first.content) / 1000,
        "letters": 1000 * await median_s(lambda: ask(_LETTERS)),
    }
    path, number = _LETTERS, 0
    for wanted, figure in zip(_PAGES, ("middle", "far"), strict=True):
        while number < wanted:
            found = re.search(r'rel="next" href="([^"]+)"', (await ask(path)).text)
            if found is None:
                break
            path, number = found[1].replace("&amp;", "&"), number + 1
        here = path
        figures[figure] = 1000 * await median_s(lambda here=here: ask(here))
    figures["groups"] = 1000 * await median_s(lambda: ask("/letters"))
    figures["ages"] = 1000 * await median_s(lambda: ask("/letters?view=ages"))
    return figures


if __name__ == "__main__":
    print(json.dumps(asyncio.run(_measure(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])))))
