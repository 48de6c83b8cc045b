"""The page of alerts: a test of a channel says what came of it, and silences are of a sane length."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from redrive.office.access import Access, Role
from redrive.office.audit import Actor
from tests.office.alerts.endpoints import Endpoint, endpoint
from tests.pages.forms import SAME_ORIGIN, form_token, sign_in
from tests.pages.shop import Shop, open_shop


@pytest.fixture
async def listening() -> AsyncIterator[Endpoint]:
    async with endpoint() as opened:
        yield opened


@pytest.fixture
async def shop(tmp_path: Path, listening: Endpoint) -> AsyncIterator[Shop]:
    channels = {"works": f"json://127.0.0.1:{listening.port}/", "refused": "https://127.0.0.1:1/hook"}
    lines = [f'[channels.{name}]\nurl = "{url}"\n' for name, url in channels.items()]
    (tmp_path / "redrive.toml").write_text("".join(lines))
    async with open_shop(tmp_path) as opened:
        yield opened


@pytest.fixture
async def client(shop: Shop) -> AsyncIterator[httpx.AsyncClient]:
    _, key = await Access(shop.store, Actor("test", "test")).create(Role.OPERATOR, None)
    async with httpx.AsyncClient(base_url=shop.url, timeout=60) as opened:
        await sign_in(opened, key)
        yield opened


async def ask(client: httpx.AsyncClient, **form: str) -> httpx.Response:
    token = form_token(await client.get("/alerts"))
    return await client.post("/alerts", data={"token": token, **form}, headers=SAME_ORIGIN)


async def test_a_test_that_arrives_says_so(client: httpx.AsyncClient, listening: Endpoint) -> None:
    page = await ask(client, verb="test", channel="works")
    assert page.status_code == 200
    assert 'role="status">The channel works took the test.' in page.text
    assert listening.received


async def test_a_test_that_is_not_taken_says_why(client: httpx.AsyncClient) -> None:
    page = await ask(client, verb="test", channel="refused")
    assert page.status_code == 200
    assert 'role="alert">The channel refused did not take the test:' in page.text
    assert "which is private: set allow_private for this channel" in page.text


async def test_a_channel_that_is_not_there_cannot_be_tested(client: httpx.AsyncClient) -> None:
    assert (await ask(client, verb="test", channel="nobody")).status_code == 404


@pytest.mark.parametrize("hours", ["721", "999999999999"])
async def test_a_silence_without_end_is_refused(client: httpx.AsyncClient, hours: str) -> None:
    page = await ask(client, verb="silence", hours=hours)
    assert (page.status_code, "at most 30 days" in page.text) == (422, True)
