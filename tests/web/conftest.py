"""Real servers on free ports: one a test with its app at hand, or one a module for tables of requests."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from redrive import Redrive
from redrive.core.grants import QueuePatterns
from redrive.office.access import Access, Limits, Role
from redrive.office.audit import Actor
from redrive.web.server import serve
from redrive.wiring import load
from tests.web.background import Served, serving

MAIL: dict[str, Any] = {
    "from": "Shop <shop@shop.example>",
    "to": "ana@customer.example",
    "subject": "Your order",
    "text": "It is on its way.",
}

# One for all clients: a new one each would read every certificate of this machine again.
_TLS = ssl.create_default_context()

Login = Callable[..., Awaitable[httpx.AsyncClient]]


@pytest.fixture
async def app(tmp_path: Path) -> AsyncIterator[Redrive]:
    given = {"store": f"sqlite:///{tmp_path}/redrive.db", "profile": "development"}
    async with Redrive(settings=load(given, environ={}, folder=tmp_path)) as opened:
        yield opened


@pytest.fixture
def access(app: Redrive) -> Access:
    return Access(app.store, Actor("test", "test"))


@pytest.fixture
async def url(app: Redrive) -> AsyncIterator[str]:
    async with serve(app, "127.0.0.1:0", mail=app.mail) as server:
        yield server.url


@pytest.fixture
async def stranger(url: str) -> AsyncIterator[httpx.AsyncClient]:
    """A client without a key."""
    async with httpx.AsyncClient(base_url=url, verify=_TLS, timeout=60) as client:
        yield client


@pytest.fixture
async def login(url: str, access: Access) -> AsyncIterator[Login]:
    """Clients with a new key of a role and a tenant."""
    clients: list[httpx.AsyncClient] = []

    async def make(role: Role, tenant: str | None = None) -> httpx.AsyncClient:
        limits = Limits(queues=QueuePatterns(("*",)) if role is Role.SUBMIT else QueuePatterns())
        _, key = await access.create(role, tenant, limits=limits)
        client = httpx.AsyncClient(
            base_url=url, headers={"Authorization": f"Bearer {key}"}, verify=_TLS, timeout=60
        )
        clients.append(client)
        return client

    yield make
    for client in clients:
        await client.aclose()


@pytest.fixture
async def acme(login: Login) -> httpx.AsyncClient:
    """A submitter of the tenant acme."""
    return await login(Role.SUBMIT, "acme")


@pytest.fixture
async def globex(login: Login) -> httpx.AsyncClient:
    """A submitter of another tenant."""
    return await login(Role.SUBMIT, "globex")


@pytest.fixture
async def viewer(login: Login) -> httpx.AsyncClient:
    return await login(Role.VIEWER)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """One server for a whole module, in a thread of its own."""
    with serving(tmp_path_factory.mktemp("served")) as server:
        yield server


@pytest.fixture
def submitter(served: Served) -> Iterator[httpx.Client]:
    """A submitter of the module's server."""
    with served.client(Role.SUBMIT) as client:
        yield client


@pytest.fixture
def visitor(served: Served) -> Iterator[httpx.Client]:
    """A client of the module's server without a key."""
    with served.client(None) as client:
        yield client
