"""Live streams: some a session and no more, and none is counted after its page has gone."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import httpx
import pytest

from redrive.office.access import Access, Role
from redrive.office.audit import Actor
from redrive.web.access import Rates
from redrive.web.pages.live import STREAMS
from redrive.web.server import serve
from tests.pages.forms import sign_in
from tests.pages.shop import MANY, make_app
from tests.waiting import wait_until

PATIENCE_S = 30.0


@pytest.fixture
async def url(tmp_path: Path) -> AsyncIterator[str]:
    app = make_app(tmp_path, set())
    async with app, serve(app, "127.0.0.1:0", rates=Rates(MANY, MANY)) as server:
        _, key = await Access(app.store, Actor("test", "test")).create(Role.VIEWER, None)
        (tmp_path / "key").write_text(key)
        yield server.url


@asynccontextmanager
async def visitor(url: str, tmp_path: Path) -> AsyncIterator[httpx.AsyncClient]:
    limits = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(base_url=url, limits=limits, timeout=PATIENCE_S) as client:
        await sign_in(client, (tmp_path / "key").read_text())
        yield client


async def look(opened: AsyncExitStack, client: httpx.AsyncClient) -> httpx.Response:
    """Open a stream and wait until it has begun."""
    answer = await opened.enter_async_context(client.stream("GET", "/live/queues"))
    if answer.status_code == 200:
        text = answer.aiter_text()
        assert (await anext(text)).startswith("retry:")
        opened.push_async_callback(text.aclose)  # type: ignore[attr-defined]
    return answer


async def test_a_session_has_some_streams_at_once_and_no_more(url: str, tmp_path: Path) -> None:
    async with visitor(url, tmp_path) as client, AsyncExitStack() as opened:
        for _ in range(STREAMS):
            assert (await look(opened, client)).status_code == 200
        refused = await look(opened, client)
        assert (refused.status_code, refused.headers["retry-after"]) == (429, "30")
        async with visitor(url, tmp_path) as another:
            assert (await look(opened, another)).status_code == 200


async def test_who_closes_a_page_may_open_another(url: str, tmp_path: Path) -> None:
    async with visitor(url, tmp_path) as client:
        async with AsyncExitStack() as opened:
            for _ in range(STREAMS):
                await look(opened, client)

        async def free() -> bool:
            async with AsyncExitStack() as opened:
                return (await look(opened, client)).status_code == 200

        await wait_until(free, PATIENCE_S, "a stream is let in again")
