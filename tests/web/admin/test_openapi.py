"""What the OpenAPI document says of the admin routes is what they do, whatever is sent."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import msgspec
import pytest
import schemathesis
from schemathesis import GenerationMode

from redrive.office.access import Role
from redrive.office.documents import SCHEMAS
from tests.web.admin.walking import WALK, Filled, Step
from tests.web.background import Served
from tests.web.fuzzing import check_answers

EXAMPLES = 12


@pytest.fixture(scope="module")
def document(served: Served) -> dict[str, Any]:
    found: dict[str, Any] = httpx.get(f"{served.url}/openapi.json", timeout=60).json()
    return found


@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE])
@pytest.mark.parametrize("step", WALK, ids=lambda step: f"{step.method} {step.path}")
def test_whatever_is_sent_the_admin_api_does_as_it_says(
    served: Served, document: dict[str, Any], step: Step, mode: GenerationMode
) -> None:
    operation = schemathesis.openapi.from_dict(document)[f"/admin/dlq{step.path}"][step.method]
    if mode is GenerationMode.NEGATIVE and not (operation.query or operation.body):
        return
    check_answers(served, operation, Role.ADMIN, mode, EXAMPLES)


@pytest.mark.parametrize("step", WALK, ids=lambda step: f"{step.method} {step.path}")
def test_an_answer_holds_what_is_described_and_nothing_else(
    loop: asyncio.AbstractEventLoop, filled: Filled, document: dict[str, Any], step: Step
) -> None:
    response = loop.run_until_complete(filled.ask(step, Role.ADMIN, None))
    if response.status_code >= 400 or step.path == "/export":
        return
    described = document["paths"][f"/admin/dlq{step.path}"][step.method.lower()]["responses"]
    content = described[str(response.status_code)]["content"]["application/json"]
    name = content["schema"]["$ref"].rpartition("/")[2]
    (kind,) = [schema for schema in SCHEMAS if schema.__name__ == name]
    told = response.json()
    assert msgspec.to_builtins(msgspec.convert(told, kind)) == told
