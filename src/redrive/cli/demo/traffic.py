"""The demonstration's traffic: mails of three tenants to addresses of the simulator, over the public HTTP
route.

acme is busy, globex sends some, initech few. What becomes of a mail follows from its number alone, so every
run has the same stories; all names are of the reserved domain `.example`. The client is as any submitter may
write one: calls run in a thread, one after the other, and what the gateway cannot take now (429, 503) is
sent again when it says so, under the same Idempotency-Key, so that nothing is doubled.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from itertools import count
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

from redrive.cli.problems import CommandError, Exit
from redrive.cli.session import operator
from redrive.core.store import Store
from redrive.office.access import Access, Credential, Role

_TIMEOUT_S = 30.0
_LONGEST_WAIT_S = 60.0
_LATER = (429, 503)

TENANTS = ("acme", "globex", "initech")
RATE = 5.0

_TURNS = ("acme", "globex", "acme", "acme", "initech", "acme", "globex", "acme", "acme", "globex")
_CYCLE = 30
_STORIES: Mapping[int, tuple[str, ...]] = {
    1: ("fail-2-then-ok",),
    3: ("reply-550-5.1.1",),
    5: ("greylist-1s",),
    7: ("reply-450",),
    9: ("ok", "fail-1-then-ok", "reply-550-5.1.1"),
    11: ("drop-after-dot",),
    14: ("fail-1-then-ok",),
    17: ("data-554-5.7.1",),
    20: ("slow-300ms",),
    23: ("fail-2-then-ok",),
}

Accepted = Callable[[str, Mapping[str, Any]], None]


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


async def send_traffic(
    clients: Mapping[str, ApiClient], rate: float, mails: int | None, accepted: Accepted
) -> None:
    """Send this many mails, or without end, at this rate; `accepted` hears tenant and answer of each."""
    began_s = time.monotonic()
    for number in count():
        if number == mails:
            return
        tenant, mail = demo_mail(number)
        owner = tenant if tenant in clients else next(iter(clients))
        accepted(owner, await clients[owner].submit(mail))
        await asyncio.sleep(max(0.0, began_s + (number + 1) / rate - time.monotonic()))


def demo_mail(number: int) -> tuple[str, dict[str, Any]]:
    """The tenant and the mail of a number."""
    tenant = _TURNS[number % len(_TURNS)]
    stories = _STORIES.get(number % _CYCLE, ("ok",))
    mail = {
        "from": f"{tenant.capitalize()} <orders@{tenant}.example>",
        "to": [f"{story}+{number}@b.example" for story in stories],
        "subject": f"Your order {number}",
        "text": f"Thank you. Order {number} is on its way.\n",
    }
    return tenant, mail


@asynccontextmanager
async def tenant_clients(store: Store, url: str) -> AsyncIterator[Mapping[str, ApiClient]]:
    """A client for each tenant, with a key that ends with the traffic."""
    access = Access(store, operator())
    made: dict[str, tuple[Credential, str]] = {}
    clients: dict[str, ApiClient] = {}
    try:
        for tenant in TENANTS:
            made[tenant] = await access.create(Role.SUBMIT, tenant, "demo traffic")
            clients[tenant] = ApiClient(url, made[tenant][1])
        yield clients
    finally:
        for client in clients.values():
            client.close()
        for credential, _ in made.values():
            await access.revoke(credential.id)
