"""A server in a thread of its own, for clients that are not asynchronous."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

from redrive import Redrive
from redrive.core.grants import QueuePatterns
from redrive.core.limits import Rate
from redrive.office.access import Access, Limits, Role
from redrive.office.audit import Actor
from redrive.web.access import Rates
from redrive.web.server import serve
from redrive.wiring import load


@dataclass(frozen=True, slots=True)
class Served:
    """Where a server listens, and a key of each role for it."""

    url: str
    keys: dict[Role, str]

    def client(self, role: Role | None) -> httpx.Client:
        """A client with the key of a role, or without one."""
        headers = {} if role is None else {"Authorization": f"Bearer {self.keys[role]}"}
        return httpx.Client(base_url=self.url, headers=headers, timeout=60)


@contextmanager
def serving(folder: Path) -> Iterator[Served]:
    """A server with its own store, while inside."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    server = _serve(folder)
    try:
        started = asyncio.run_coroutine_threadsafe(_next(server), loop).result(30)
        assert started is not None
        yield started
        asyncio.run_coroutine_threadsafe(_next(server), loop).result(30)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


async def _serve(folder: Path) -> AsyncIterator[Served]:
    settings = load({"store": f"sqlite:///{folder}/redrive.db"}, environ={}, folder=folder)
    unlimited = Rate(1_000_000, 60.0)
    async with Redrive(settings=settings) as app:
        access = Access(app.store, Actor("test", "test"))
        any_queue = Limits(queues=QueuePatterns(("*",)))
        keys = {role: (await access.create(role, None))[1] for role in Role if role is not Role.SUBMIT}
        keys[Role.SUBMIT] = (await access.create(Role.SUBMIT, "acme", limits=any_queue))[1]
        rates = Rates(unlimited, unlimited)
        async with serve(app, "127.0.0.1:0", mail=app.mail, rates=rates) as server:
            yield Served(server.url, keys)


async def _next(server: AsyncIterator[Served]) -> Served | None:
    return await anext(server, None)
