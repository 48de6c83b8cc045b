"""docs/http.md names every route, problem and field, and its examples work as written."""

from __future__ import annotations

import json
import re
from pathlib import Path

import httpx
import pytest

from redrive import Redrive
from redrive.web.access import GuardedRoute
from redrive.web.api import make_api
from redrive.web.emails import SubmittedMail
from redrive.web.messages import SubmittedMessage
from redrive.web.problems import PROBLEMS

TEXT = (Path(__file__).parents[2] / "docs" / "http.md").read_text("utf-8")
EXAMPLES = re.findall(r"curl http://127\.0\.0\.1:8025(\S+) .*?-d '(.*?)'", TEXT, re.DOTALL)


def test_every_route_is_documented(app: Redrive) -> None:
    for route in make_api(app, app.mail).routes:
        assert isinstance(route, GuardedRoute)
        if route.include_in_schema or route.path in ("/docs", "/openapi.json"):
            assert all(f"`{method} {route.path}`" in TEXT for method in route.methods)


def test_every_problem_is_documented() -> None:
    documented = set(re.findall(r"^\| (\d{3}) \| `([a-z-]+)` \|", TEXT, re.MULTILINE))
    assert documented == {(str(kind.status), kind.name) for kind in PROBLEMS}


@pytest.mark.parametrize("struct", [SubmittedMail, SubmittedMessage])
def test_every_field_is_documented(struct: type) -> None:
    for name in struct.__struct_encode_fields__:  # type: ignore[attr-defined]  # a msgspec Struct
        assert f"`{name}`" in TEXT


@pytest.mark.parametrize(("path", "body"), EXAMPLES)
async def test_an_example_is_accepted(acme: httpx.AsyncClient, path: str, body: str) -> None:
    response = await acme.post(path, json=json.loads(body))
    assert response.status_code == 202, response.text


def test_there_are_examples() -> None:
    assert len(EXAMPLES) == 2
