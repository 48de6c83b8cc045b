"""What the tests of the admin API ask again and again."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx

DLQ = "/admin/dlq"
SECRET = b'{"order": 7, "password": "hunter2", "note": "call ana"}'
_PATIENCE_S = 20.0


def good(response: httpx.Response, status: int = 200) -> dict[str, Any]:
    """The document of an answer that has this status."""
    assert response.status_code == status, response.text
    document: dict[str, Any] = response.json()
    return document


async def rows_of(client: httpx.AsyncClient, **query: str) -> list[dict[str, Any]]:
    """Rows of the audit, the newest first."""
    rows: list[dict[str, Any]] = good(await client.get(f"{DLQ}/audit", params=query))["rows"]
    return rows


async def rows_when(client: httpx.AsyncClient, count: int, **query: str) -> list[dict[str, Any]]:
    """The same, once there are so many."""
    async with asyncio.timeout(_PATIENCE_S):
        while True:
            rows = await rows_of(client, **query)
            if len(rows) >= count:
                return rows
            await asyncio.sleep(0.02)


async def ended(client: httpx.AsyncClient, started: httpx.Response) -> dict[str, Any]:
    """The operation that was started, once it has ended or halted."""
    assert started.status_code == 202, started.text
    where = started.headers["location"]
    async with asyncio.timeout(_PATIENCE_S):
        while True:
            seen = good(await client.get(where))
            if seen["state"] in ("finished", "failed", "cancelled", "halted"):
                return seen
            await asyncio.sleep(0.02)
