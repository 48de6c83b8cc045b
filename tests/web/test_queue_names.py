"""Which queues a submit key reaches, and how many a tenant may begin."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
from msgspec.structs import replace

from redrive import Redrive
from redrive.core.grants import QueuePatterns
from redrive.core.settings import SubmitSettings
from redrive.office.access import Access, Limits, Role
from redrive.wiring import load
from tests.web.problems import problem

MOST = 5


@pytest.fixture
async def app(tmp_path: Path) -> AsyncIterator[Redrive]:
    file = tmp_path / "redrive.toml"
    file.write_text("[queues.configured]\nconcurrency = 2\n")
    given = {"store": f"sqlite:///{tmp_path}/redrive.db", "config": file}
    settings = replace(load(given, environ={}, folder=tmp_path), submit=SubmitSettings(queues=MOST))
    async with Redrive(settings=settings) as opened:
        yield opened


async def submit(client: httpx.AsyncClient, key: str, queue: str) -> httpx.Response:
    headers = {"Authorization": f"Bearer {key}"}
    return await client.post(f"/v1/queues/{queue}/messages", json={"payload": 1}, headers=headers)


async def test_without_names_a_key_reaches_known_queues_only(
    app: Redrive, access: Access, stranger: httpx.AsyncClient
) -> None:
    @app.handler("handled")
    async def handle(payload: object) -> None: ...

    await app.submit("existing", 1, tenant="globex")
    _, key = await access.create(Role.SUBMIT, "acme")
    for queue in ("existing", "handled", "configured"):
        assert (await submit(stranger, key, queue)).status_code == 202
    problem(await submit(stranger, key, "unknown"), 404, "not-found")
    assert "unknown" not in await app.store.queue_names()


async def test_a_key_that_names_queues_reaches_those_and_begins_them(
    app: Redrive, access: Access, stranger: httpx.AsyncClient
) -> None:
    await app.submit("existing", 1, tenant="acme")
    limits = Limits(queues=QueuePatterns.parse(["orders", "billing.*"]))
    _, key = await access.create(Role.SUBMIT, "acme", limits=limits)
    for queue in ("orders", "billing.eu"):
        assert (await submit(stranger, key, queue)).status_code == 202
    for queue in ("existing", "orders2", "billing"):
        problem(await submit(stranger, key, queue), 403, "forbidden")
    assert set(await app.store.queue_names()) == {"existing", "orders", "billing.eu"}


async def test_a_tenant_begins_a_bounded_number_of_queues_also_at_once(
    app: Redrive, access: Access, stranger: httpx.AsyncClient
) -> None:
    await app.submit("own", 1, tenant="acme")
    await app.submit("of-another", 1, tenant="globex")
    _, key = await access.create(Role.SUBMIT, "acme", limits=Limits(queues=QueuePatterns(("*",))))
    answers = await asyncio.gather(*(submit(stranger, key, f"q{number}") for number in range(40)))
    assert sorted(answer.status_code for answer in answers) == [202] * (MOST - 1) + [403] * (41 - MOST)
    assert len(await app.store.queue_names()) == MOST + 1
    assert (await submit(stranger, key, "of-another")).status_code == 202
