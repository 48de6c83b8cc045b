"""The demonstration's traffic: mails of three tenants to addresses of the simulator.

acme is busy, globex sends some, initech few. What becomes of a mail follows from its number alone, so
every run tells the same stories; all names are of the reserved domain `.example`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from itertools import count
from typing import Any

from redrive.cli.demo.client import ApiClient
from redrive.cli.session import operator
from redrive.core.ports import Store
from redrive.office.access import Access, Role

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
    made = {tenant: await access.create(Role.SUBMIT, tenant, "demo traffic") for tenant in TENANTS}
    clients = {tenant: ApiClient(url, text) for tenant, (_, text) in made.items()}
    try:
        yield clients
    finally:
        for client in clients.values():
            client.close()
        for credential, _ in made.values():
            await access.revoke(credential.id)
