"""What the tests of the admin API ask again and again."""

from __future__ import annotations

from typing import Any

import httpx

from tests.waiting import wait_until

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

    async def there() -> bool:
        return len(await rows_of(client, **query)) >= count

    await wait_until(there, _PATIENCE_S, f"the audit has {count} rows")
    return await rows_of(client, **query)


async def ended(client: httpx.AsyncClient, started: httpx.Response) -> dict[str, Any]:
    """The operation that was started, once it has ended or halted."""
    assert started.status_code == 202, started.text
    where = started.headers["location"]

    async def stands() -> bool:
        return good(await client.get(where))["state"] in ("finished", "failed", "cancelled", "halted")

    await wait_until(stands, _PATIENCE_S, "the operation has ended or halted")
    seen: dict[str, Any] = good(await client.get(where))
    return seen
