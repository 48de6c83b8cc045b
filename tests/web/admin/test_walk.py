"""Every admin route x role x tenant: let in, refused or not found, and never another tenant's data.

A route that is not in the walk fails the first test. Nothing is carried out here: the letters stay.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from redrive import Redrive
from redrive.office.access import Role
from redrive.web.access import GuardedRoute
from redrive.web.api import make_api
from redrive.wiring import load
from tests.web.admin.asking import DLQ
from tests.web.admin.walking import KEYS, SECRET, WALK, Filled, Step
from tests.web.problems import problem


async def test_every_admin_route_is_walked(tmp_path: Path) -> None:
    settings = load({"store": f"sqlite:///{tmp_path}/redrive.db"}, environ={}, folder=tmp_path)
    async with Redrive(settings=settings) as app:
        routes = make_api(app, None).routes
    found = {
        (method, route.path, route.unbound)
        for route in routes
        if isinstance(route, GuardedRoute) and route.path.startswith("/admin/")
        for method in route.methods
    }
    assert found == {(step.method, f"{DLQ}{step.path}", step.unbound) for step in WALK}


@pytest.mark.parametrize(("role", "tenant"), KEYS)
@pytest.mark.parametrize("step", WALK, ids=lambda step: f"{step.method} {step.path}")
def test_a_key_gets_what_its_role_and_its_tenant_allow(
    loop: asyncio.AbstractEventLoop, filled: Filled, step: Step, role: Role, tenant: str | None
) -> None:
    response = loop.run_until_complete(filled.ask(step, role, tenant))
    assert response.status_code == step.expected(role, tenant), response.text
    if tenant == "globex":
        told = response.text.replace("tenant:acme", "").replace('"key":"acme"', "")  # what it said itself
        assert not any(name in told for name in (SECRET, "acme", filled.names["letter"]))


@pytest.mark.parametrize("step", WALK, ids=lambda step: f"{step.method} {step.path}")
def test_without_a_key_nothing_is_told(loop: asyncio.AbstractEventLoop, filled: Filled, step: Step) -> None:
    problem(loop.run_until_complete(filled.send(step, {})), 401, "unauthenticated")
