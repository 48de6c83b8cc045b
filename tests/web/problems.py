"""What every problem must look like."""

from __future__ import annotations

import re
from typing import Any

import httpx


def problem(response: httpx.Response, status: int, name: str) -> dict[str, Any]:
    """The problem that a response is, checked for its form."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    document: dict[str, Any] = response.json()
    assert set(document) - {"errors"} == {"type", "title", "status", "detail", "instance"}
    assert document["type"] == f"/docs#{name}"
    assert document["status"] == status
    assert re.fullmatch(r"urn:uuid:[0-9a-f-]{36}", document["instance"])
    for secret in ("Traceback", "/tmp", ".py", "sqlite", "redrive.db"):  # noqa: S108 - what must not appear
        assert secret not in response.text
    return document


def fields(document: dict[str, Any]) -> list[tuple[int | None, str]]:
    """Index and field of every error."""
    return [(error.get("index"), error["field"]) for error in document["errors"]]
