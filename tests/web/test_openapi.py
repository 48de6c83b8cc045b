"""The OpenAPI document says what the server does, and the docs page shows it from our own server alone."""

from __future__ import annotations

import re
from typing import Any

import httpx
import pytest
import schemathesis
from schemathesis import GenerationMode

from redrive.office.access import Role
from redrive.web.problems import PROBLEMS
from tests.web.background import Served
from tests.web.fuzzing import check_answers

OPERATIONS = (
    ("POST", "/v1/emails"),
    ("POST", "/v1/emails/batch"),
    ("GET", "/v1/emails/{id}"),
    ("POST", "/v1/queues/{queue}/messages"),
    ("GET", "/health/live"),
    ("GET", "/health/ready"),
    ("GET", "/health/outbox"),
    ("GET", "/metrics"),
)
EXAMPLES = 60


@pytest.fixture(scope="module")
def document(served: Served) -> dict[str, Any]:
    found: dict[str, Any] = httpx.get(f"{served.url}/openapi.json", timeout=60).json()
    return found


def test_the_document_names_every_operation(document: dict[str, Any]) -> None:
    assert document["openapi"].startswith("3.1")
    found = {(method.upper(), path) for path, one in document["paths"].items() for method in one}
    assert {one for one in found if not one[1].startswith("/admin/")} == set(OPERATIONS)
    for path in document["paths"].values():
        for operation in path.values():
            keyless = operation["operationId"] in ("isLive", "isReady")
            assert operation["security"] == ([] if keyless else [{"key": []}])


def test_every_reference_has_its_schema(document: dict[str, Any]) -> None:
    names = set(re.findall(r"#/components/schemas/(\w+)", str(document)))
    assert names <= set(document["components"]["schemas"])


@pytest.mark.parametrize(
    ("method", "path", "mode"),
    [(*operation, GenerationMode.POSITIVE) for operation in OPERATIONS]
    + [(*operation, GenerationMode.NEGATIVE) for operation in OPERATIONS if "/v1" in operation[1]],
)
def test_whatever_is_sent_the_server_does_as_it_says(
    served: Served, document: dict[str, Any], method: str, path: str, mode: GenerationMode
) -> None:
    operation = schemathesis.openapi.from_dict(document)[path][method]
    role = Role.VIEWER if method == "GET" else Role.SUBMIT
    check_answers(served, operation, role, mode, EXAMPLES)


def test_the_docs_page_shows_all_and_fetches_nothing(served: Served, document: dict[str, Any]) -> None:
    response = httpx.get(f"{served.url}/docs", timeout=60)
    assert response.headers["content-type"].startswith("text/html")
    page = response.text
    for path in document["paths"]:
        assert path in page
    for kind in PROBLEMS:
        assert f'id="{kind.name}"' in page
    for name in document["components"]["schemas"]:
        assert f'id="{name}"' in page
    assert "<script" not in page
    assert "style=" not in page
    links = re.findall(r'(?:href|src)="([^"]*)"', page)
    assert all(link.startswith(("/", "#")) and not link.startswith("//") for link in links)
    for link in sorted({link for link in links if link.startswith("/")}):
        assert httpx.get(served.url + link, timeout=60).status_code == 200
