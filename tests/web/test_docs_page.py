"""The page at /docs: every route says who may call it, and how."""

from __future__ import annotations

import html
import json
import re
import shlex

import httpx

from redrive.office.access import Role
from tests.web.conftest import Login


async def _sections(client: httpx.AsyncClient) -> dict[str, str]:
    page = (await client.get("/docs")).text
    return dict(re.findall(r'<section id="(\w+)">\n<h2>(.*?)</section>', page, re.DOTALL))


async def test_every_route_says_its_roles_and_has_an_example(stranger: httpx.AsyncClient) -> None:
    described = (await stranger.get("/openapi.json")).json()["paths"]
    sections = await _sections(stranger)
    for path, operations in described.items():
        for method, operation in operations.items():
            section = html.unescape(sections[operation["operationId"]])
            words = shlex.split(section.partition("<pre><code>")[2].partition("</code>")[0])
            assert words[0] == "curl"
            assert any(word.startswith(f"$REDRIVE{path}") for word in words), operation["operationId"]
            assert method == "get" or words[1:3] == ["-X", method.upper()]
            roles = operation.get("x-roles")
            assert ("Needs no key." if roles is None else f"role {' or '.join(roles)}") in section


async def test_the_examples_of_submitting_are_accepted(stranger: httpx.AsyncClient, login: Login) -> None:
    acme, sections = await login(Role.SUBMIT, "acme"), await _sections(stranger)
    for name, path in (
        ("submitEmail", "/v1/emails"),
        ("submitEmails", "/v1/emails/batch"),
        ("submitMessages", "/v1/queues/orders/messages"),
    ):
        (body,) = re.findall(r"-d '(.*?)'</code>", html.unescape(sections[name]), re.DOTALL)
        answer = await acme.post(path, json=json.loads(body))
        assert answer.status_code == 202, answer.text
