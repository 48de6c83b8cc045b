"""Who gets in: nothing without a declared permission, and each role to its own routes."""

from __future__ import annotations

import secrets

import httpx
import pytest
from fastapi import FastAPI

from redrive import Redrive
from redrive.core.limits import Rate
from redrive.office.access import Access, Permission, Role
from redrive.web.access import PUBLIC, GuardedRoute, Rates
from redrive.web.api import make_api
from redrive.web.pages.door import PageDoor
from redrive.web.server import serve
from tests.web.background import Served
from tests.web.conftest import MAIL
from tests.web.problems import problem

PUBLIC_PATHS = {"/health/live", "/health/ready", "/openapi.json", "/docs", "/docs/docs.css"}
ROUTES: dict[tuple[str, str], frozenset[Role]] = {
    ("POST", "/v1/emails"): frozenset({Role.SUBMIT}),
    ("POST", "/v1/emails/batch"): frozenset({Role.SUBMIT}),
    ("GET", "/v1/emails/{id}"): frozenset(Role),
    ("POST", "/v1/queues/{queue}/messages"): frozenset({Role.SUBMIT}),
    ("GET", "/health/outbox"): frozenset({Role.VIEWER, Role.OPERATOR, Role.ADMIN}),
    ("GET", "/metrics"): frozenset({Role.VIEWER, Role.OPERATOR, Role.ADMIN}),
}


def _routes(api: FastAPI) -> list[GuardedRoute]:
    """Those of the API; the dashboard's stand behind a door of their own."""
    found = []
    for route in api.routes:
        assert isinstance(route, GuardedRoute), f"{route} is not behind a door"
        if not isinstance(route.door, PageDoor):
            found.append(route)
    return found


def test_every_route_declares_who_may_use_it(app: Redrive) -> None:
    routes = _routes(make_api(app, app.mail))
    for route in routes:
        if route.allowed is PUBLIC:
            assert route.path in PUBLIC_PATHS
        else:
            assert route.allowed
            assert route.allowed <= set(Permission)
    guarded = {
        (method, route.path) for route in routes for method in route.methods if route.allowed is not PUBLIC
    }
    assert {one for one in guarded if not one[1].startswith("/admin/")} == set(ROUTES)


def test_without_a_mail_desk_there_are_no_routes_for_mails(app: Redrive) -> None:
    routes = _routes(make_api(app, None))
    assert not any(route.path.startswith("/v1/emails") for route in routes)


@pytest.mark.parametrize("role", Role)
@pytest.mark.parametrize(("method", "path"), ROUTES)
def test_a_role_reaches_its_own_routes_and_no_others(
    served: Served, method: str, path: str, role: Role
) -> None:
    with served.client(role) as client:
        response = client.request(method, path.format(id="nobody", queue="orders"), json={})
    if role in ROUTES[method, path]:
        assert response.status_code not in (401, 403)
    else:
        problem(response, 403, "forbidden")


@pytest.mark.parametrize(("method", "path"), ROUTES)
def test_nothing_is_told_without_a_key(visitor: httpx.Client, method: str, path: str) -> None:
    response = visitor.request(method, path.format(id="nobody", queue="orders"), json={})
    problem(response, 401, "unauthenticated")
    assert response.headers["www-authenticate"] == 'Bearer realm="redrive"'


@pytest.mark.parametrize(
    "header",
    [
        "",
        "Bearer",
        "Basic cm9vdDpyb290",
        "rdk_1",
        "Bearer rdk_",
        "Bearer " + "x" * 9_000,
        "Bearer \xe9",
    ],
)
def test_what_is_no_key_is_refused(visitor: httpx.Client, header: str) -> None:
    response = visitor.get("/health/outbox", headers={"Authorization": header.encode("latin-1")})
    problem(response, 401, "unauthenticated")
    assert 'error="invalid_token"' in response.headers["www-authenticate"]


async def test_the_scheme_is_read_in_any_case(url: str, access: Access) -> None:
    _, key = await access.create(Role.VIEWER, None)
    async with httpx.AsyncClient(
        base_url=url, headers={"Authorization": f"bEARER  {key}"}, timeout=60
    ) as client:
        assert (await client.get("/health/outbox")).status_code == 200


async def test_a_revoked_key_ends_at_once(url: str, access: Access) -> None:
    credential, key = await access.create(Role.SUBMIT, "acme")
    async with httpx.AsyncClient(
        base_url=url, headers={"Authorization": f"Bearer {key}"}, timeout=60
    ) as client:
        assert (await client.post("/v1/emails", json=MAIL)).status_code == 202
        await access.revoke(credential.id)
        problem(await client.post("/v1/emails", json=MAIL), 401, "unauthenticated")


async def test_the_tenant_cannot_be_chosen(app: Redrive, acme: httpx.AsyncClient) -> None:
    headers = {"X-Tenant": "globex", "Tenant": "globex"}
    response = await acme.post("/v1/queues/a/messages?tenant=globex", json={"payload": 1}, headers=headers)
    account = await app.store.get(response.json()["id"])
    assert account is not None
    assert account.message.tenant == "acme"


async def test_a_key_that_calls_too_often_waits_and_another_does_not(app: Redrive, access: Access) -> None:
    _, busy = await access.create(Role.VIEWER, None)
    _, calm = await access.create(Role.VIEWER, None)
    rates = Rates(a_key=Rate(3, 60.0))
    async with (
        serve(app, "127.0.0.1:0", rates=rates) as server,
        httpx.AsyncClient(base_url=server.url, timeout=60) as client,
    ):

        async def ask(key: str) -> httpx.Response:
            return await client.get("/health/outbox", headers={"Authorization": f"Bearer {key}"})

        assert [(await ask(busy)).status_code for _ in range(3)] == [200] * 3
        refused = await ask(busy)
        problem(refused, 429, "rate-limited")
        assert 1 <= int(refused.headers["retry-after"]) <= 60
        assert (await ask(calm)).status_code == 200
        assert (await client.get("/health/live")).status_code == 200


async def test_wrong_keys_are_slowed_and_a_right_one_is_not(app: Redrive, access: Access) -> None:
    _, right = await access.create(Role.VIEWER, None)
    rates = Rates(wrong_keys=Rate(2, 60.0))
    async with (
        serve(app, "127.0.0.1:0", rates=rates) as server,
        httpx.AsyncClient(base_url=server.url, timeout=60) as client,
    ):

        async def ask(key: str) -> httpx.Response:
            origin = {"X-Forwarded-For": f"192.0.2.{secrets.randbelow(256)}"}
            return await client.get("/health/outbox", headers=origin | {"Authorization": f"Bearer {key}"})

        wrong = right[:-1] + ("A" if right[-1] != "A" else "B")
        assert [(await ask(wrong)).status_code for _ in range(3)] == [401, 401, 429]
        assert int((await ask(wrong)).headers["retry-after"]) >= 1
        assert (await ask(right)).status_code == 200
