"""The admin API on a SQLite file and on Redis, with keys of every role, bound and not."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx
import pytest

from redrive import Redrive
from redrive.office.access import Role
from redrive.wiring import load
from tests.web.admin.walking import Filled, fill
from tests.web.conftest import Login


@pytest.fixture(params=("sqlite", "redis"))
async def app(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Redrive]:
    url = f"sqlite:///{tmp_path}/redrive.db"
    if request.param == "redis":
        url = f"{request.getfixturevalue('redis_url')}?prefix=web{uuid.uuid4().hex[:8]}"
    given = {"store": url, "profile": "development", "office.edit": True, "office.masked": "note"}
    async with Redrive(settings=load(given, environ={}, folder=tmp_path)) as opened:
        yield opened


@pytest.fixture
async def on_duty(app: Redrive) -> AsyncIterator[None]:
    """What a serving process does beside answering: it carries operations out."""
    async with app.on_duty():
        yield


@pytest.fixture
async def operator(login: Login) -> httpx.AsyncClient:
    return await login(Role.OPERATOR)


@pytest.fixture
async def admin(login: Login) -> httpx.AsyncClient:
    return await login(Role.ADMIN)


@pytest.fixture
async def acme_operator(login: Login) -> httpx.AsyncClient:
    return await login(Role.OPERATOR, "acme")


@pytest.fixture
async def globex_operator(login: Login) -> httpx.AsyncClient:
    return await login(Role.OPERATOR, "globex")


@pytest.fixture(scope="module")
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    yield loop
    loop.close()


@pytest.fixture(scope="module", params=("sqlite", "redis"))
def filled(
    request: pytest.FixtureRequest,
    loop: asyncio.AbstractEventLoop,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Filled]:
    folder = tmp_path_factory.mktemp("walk")
    url = f"sqlite:///{folder}/redrive.db"
    if request.param == "redis":
        url = f"{request.getfixturevalue('redis_url')}?prefix=walk{uuid.uuid4().hex[:8]}"
    server = fill(folder, url)
    yield loop.run_until_complete(anext(server))
    assert loop.run_until_complete(anext(server, None)) is None
