"""What the dashboard is shown with: a shop whose handlers really fail, until a cause is fixed.

Everything on the pages comes from submitting messages and running them; no row is written by hand.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from redrive import Permanent, Redrive, RetryPolicy, Submission, Temporary
from redrive.core.lifecycle import State
from redrive.core.limits import Rate
from redrive.core.store import Store
from redrive.mail.writing.mail import Mail
from redrive.mailbox import Mailbox
from redrive.office.access import Access, Role
from redrive.office.audit import Actor
from redrive.office.office import Office
from redrive.web.access import Rates
from redrive.web.server import serve
from redrive.wiring import load
from tests.waiting import wait_until

ORDERS = "orders"
INVOICES = "invoices"
TENANTS = ("acme", "globex", "initech")
MANY = Rate(1_000_000, 60.0)
_QUICK = RetryPolicy(attempts=2, base_s=0.01, cap_s=0.01)
_PATIENCE_S = 30.0


@dataclass
class Shop:
    """A served app, its worker, and what it does not fail for any more."""

    app: Redrive
    store: Store
    office: Office
    folder: Path
    loop: asyncio.AbstractEventLoop
    url: str = ""
    fixed: set[str] = field(default_factory=set)
    keys: dict[tuple[Role, str | None], str] = field(default_factory=dict)

    def do(self, work: Any) -> Any:
        """Run something in the shop's own loop, from the test's thread."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(_PATIENCE_S)

    def key(self, role: Role, tenant: str | None = None) -> str:
        """A key of a role, made once."""
        if (role, tenant) not in self.keys:
            access = Access(self.store, Actor("test", "test"))
            self.keys[role, tenant] = self.do(access.create(role, tenant, f"{role} key"))[1]
        return self.keys[role, tenant]

    def submit(self, queue: str, payloads: list[dict[str, Any]], tenant: str = "acme") -> list[str]:
        """Hand messages in; their ids."""
        some = [Submission(payload, tenant) for payload in payloads]
        return [receipt.id for receipt in self.do(self.app.submit_many(queue, some))]

    def send(self, mail: Mail, tenant: str = "acme") -> str:
        """Hand a mail in to the gateway; its id."""
        return str(self.do(self.app.mail.submit(mail, tenant=tenant)).id)

    def bury(self, queue: str, payloads: list[dict[str, Any]], tenant: str = "acme") -> list[str]:
        """Hand messages in that die, and wait until they are dead."""
        ids = self.submit(queue, payloads, tenant)

        async def dead() -> bool:
            accounts = await self.store.accounts(queue, ids)
            return all(one.state is State.DEAD for one in accounts)

        self.do(wait_until(dead, _PATIENCE_S, f"{len(ids)} messages of {queue} are dead"))
        return ids

    def wait_dead(self, count: int) -> None:
        """Until there are so many dead letters."""

        async def there() -> bool:
            return await self._dead() >= count

        self.do(wait_until(there, _PATIENCE_S, f"{count} are dead"))

    async def _dead(self) -> int:
        return sum([one.dlq for one in await self.store.queues()])


def make_app(folder: Path, fixed: set[str], url: str | None = None, **more: Any) -> Redrive:
    """The shop's app on a store of its own."""
    given = {
        "store": url or f"sqlite:///{folder}/redrive.db",
        "profile": "development",
        "office.edit": True,
        **more,
    }
    app = Redrive(settings=load(given, environ={}, folder=folder))

    @app.handler(ORDERS, retry=_QUICK)
    async def ship(order: dict[str, Any]) -> None:
        _fail(order, fixed)

    @app.handler(INVOICES, retry=_QUICK)
    async def bill(invoice: dict[str, Any]) -> None:
        _fail(invoice, fixed)

    return app


def _fail(order: dict[str, Any], fixed: set[str]) -> None:
    cause = order.get("cause")
    if cause is None or cause in fixed:
        return
    match cause:
        case "warehouse":
            raise Temporary("503 the warehouse does not answer", code="503")
        case "address":
            raise Permanent("the address cannot be delivered to", code="422")
        case "bug":
            raise KeyError("price")
        case _:
            raise Permanent(str(cause), code=order.get("code", "400"))


@asynccontextmanager
async def open_shop(folder: Path, listen: str = "127.0.0.1:0", **more: Any) -> AsyncIterator[Shop]:
    """The shop in this event loop: served, with a worker, and the mailbox simulator as its relay."""
    fixed: set[str] = set()
    async with Mailbox(folder=folder / "mailbox") as mailbox:
        app = make_app(folder, fixed, mail=mailbox.url, **more)
        app.serve_mail()
        async with app, serve(app, listen, rates=Rates(MANY, MANY)) as server, _worker(app):
            yield Shop(app, app.store, app.office, folder, asyncio.get_running_loop(), server.url, fixed)


@asynccontextmanager
async def _worker(app: Redrive) -> AsyncIterator[None]:
    working = asyncio.create_task(app.run(signals=False))
    try:
        yield
    finally:
        working.cancel()
        await asyncio.wait([working])


@contextmanager
def shop_in_thread(folder: Path, listen: str = "127.0.0.1:0", **more: Any) -> Iterator[Shop]:
    """The same in a thread of its own, for a browser that is driven from this one."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    opening = open_shop(folder, listen, **more)
    try:
        yield asyncio.run_coroutine_threadsafe(opening.__aenter__(), loop).result(_PATIENCE_S)
        asyncio.run_coroutine_threadsafe(opening.__aexit__(None, None, None), loop).result(_PATIENCE_S)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
