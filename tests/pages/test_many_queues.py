"""More queues than are counted each: the page says so, instead of showing that nothing was done."""

from __future__ import annotations

import re
from pathlib import Path

import httpx
import pytest

from redrive.core.totals import LABEL_LIMITS, Flow, LabelKind, Total, TotalsBatch
from redrive.office.access import Access, Role
from redrive.office.audit import Actor
from redrive.web.server import serve
from tests.pages.forms import sign_in
from tests.pages.shop import make_app

MOST = LABEL_LIMITS[LabelKind.QUEUE]
ROW = re.compile(r'href="/queues/(?P<queue>[^"]+)".*?data-label="Done, last hour">(?P<done>[^<]*)<')


@pytest.mark.parametrize("beyond", [0, 2])
async def test_queues_beyond_the_last_label_show_no_figure_of_their_own(tmp_path: Path, beyond: int) -> None:
    app = make_app(tmp_path, set())
    async with app, serve(app, "127.0.0.1:0") as server:
        names = [f"q{number:03}" for number in range(MOST + beyond)]
        done = tuple(Total(Flow.DONE, name, "", 7) for name in names)
        await app.store.add_totals(TotalsBatch("a-process", 1, done))
        for name in (names[0], names[-1]):
            await app.submit(name, {})
        _, key = await Access(app.store, Actor("test", "test")).create(Role.VIEWER, None)
        async with httpx.AsyncClient(base_url=server.url, timeout=60) as client:
            await sign_in(client, key)
            page = (await client.get("/queues")).text
    shown = {found["queue"]: found["done"] for found in ROW.finditer(page)}
    assert shown == {names[0]: "7", names[-1]: "\N{EN DASH}" if beyond else "7"}
    assert ("counted together: 14 done in the last hour" in page) == bool(beyond)
