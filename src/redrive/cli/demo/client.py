"""A client of the HTTP API, as any submitter may write one: a key, a connection, and patience.

Calls run in a thread of their own, one after the other. What the gateway cannot take now (429, 503) is sent
again when it says so, under the same Idempotency-Key, so that nothing is doubled.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

from redrive.cli.problems import CommandError, Exit

_TIMEOUT_S = 30.0
_LONGEST_WAIT_S = 60.0
_LATER = (429, 503)


class ApiClient:
    """One key's connection to a gateway."""

    def __init__(self, url: str, key: str) -> None:
        self.url = url.rstrip("/")
        self._key = key
        self._make = _connector(self.url)
        self._prefix = urlsplit(self.url).path
        self._connection: HTTPConnection | None = None
        self._one_at_a_time = asyncio.Lock()

    async def submit(self, mail: Mapping[str, Any]) -> dict[str, Any]:
        """Hand in a mail; what the gateway answered."""
        answer = await self._call("POST", "/v1/emails", json.dumps(mail), {"Idempotency-Key": str(uuid4())})
        if answer is None:
            raise CommandError(f"{self.url} has no route for mails: is it a Redrive gateway?", Exit.FAILED)
        return answer

    async def find(self, mail_id: str) -> dict[str, Any] | None:
        """How far a mail is; None when the gateway does not know it any more."""
        return await self._call("GET", f"/v1/emails/{mail_id}", None, {})

    def close(self) -> None:
        """Let go of the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    async def _call(
        self, method: str, path: str, body: str | None, more: Mapping[str, str]
    ) -> dict[str, Any] | None:
        headers = {"Authorization": f"Bearer {self._key}", "Content-Type": "application/json", **more}
        while True:
            async with self._one_at_a_time:
                status, wait, document = await asyncio.to_thread(self._request, method, path, body, headers)
            if status == 404:
                return None
            if status < 400:
                return document
            if status not in _LATER:
                detail = document.get("detail") or f"status {status}"
                raise CommandError(f"{self.url} refused {method} {path}: {detail}", Exit.FAILED)
            await asyncio.sleep(min(_LONGEST_WAIT_S, float(wait) if wait and wait.isdecimal() else 1.0))

    def _request(
        self, method: str, path: str, body: str | None, headers: Mapping[str, str]
    ) -> tuple[int, str | None, dict[str, Any]]:
        """One call; a connection that the gateway closed while it was idle is replaced once."""
        connection, fresh = self._connection, False
        while True:
            if connection is None:
                connection, fresh = self._make(), True
            self._connection = connection
            try:
                connection.request(method, self._prefix + path, body, dict(headers))
                response = connection.getresponse()
                return response.status, response.headers["Retry-After"], json.loads(response.read())
            except (HTTPException, OSError, ValueError) as error:
                self.close()
                if fresh:
                    raise _no_answer(self.url, error) from error
                connection = None


def _connector(url: str) -> Callable[[], HTTPConnection]:
    kinds = {"http": HTTPConnection, "https": HTTPSConnection}
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    kind = kinds.get(parts.scheme) if host else None
    if kind is None or host is None:
        raise CommandError("--url is not the address of a gateway: write http://127.0.0.1:8025", Exit.USAGE)
    return lambda: kind(host, port, timeout=_TIMEOUT_S)


def _no_answer(url: str, error: Exception) -> CommandError:
    why = str(error) or type(error).__name__
    return CommandError(
        f"{url} does not answer as a gateway ({why}): start one with redrive up", Exit.UNREACHABLE
    )
