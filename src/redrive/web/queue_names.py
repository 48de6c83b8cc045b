"""Which queues a key submits to: those it names, or those that are known; and how many a tenant may begin.

A name that nobody knows would be a queue that nobody serves, and many of them a way to fill the store.
Known weakness: two processes that begin queues for one tenant at the same moment may pass the
bound by a few.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict

from redrive.app import Redrive
from redrive.office.access import Credential
from redrive.office.queues import live_workers
from redrive.web.problems import FORBIDDEN, NOT_FOUND, Refusal


class QueueNames:
    """The queues of one app, as submit keys may use them."""

    def __init__(self, app: Redrive) -> None:
        self._app = app
        self._known: set[str] = set()
        self._begun: defaultdict[str, set[str]] = defaultdict(set)
        self._beginning = asyncio.Lock()

    async def admit(self, key: Credential, tenant: str, queue: str) -> None:
        """Refusal when the key may not submit to the queue."""
        if key.queues and not key.queues.match(queue):
            raise Refusal(FORBIDDEN, f"this key submits to {key.queues} only")
        if queue in self._known:
            return
        async with self._beginning:
            self._known.update(await self._app.store.queue_names())
            if queue not in self._known:
                await self._begin(key, tenant, queue)

    async def _begin(self, key: Credential, tenant: str, queue: str) -> None:
        if not key.queues and not await self._has_handler(queue):
            raise Refusal(
                NOT_FOUND,
                "there is no such queue, and nothing has a handler for it: start its worker, name it in the "
                "configuration, or use a key that names its queues",
            )
        begun, most = self._begun[tenant], self._app.settings.submit.queues
        if queue not in begun:
            names = {name for name in self._known if await self._app.store.lane(name, tenant) is not None}
            if len(names | begun) >= most:
                detail = f"the tenant has {most:,} queues, as many as it may: use one of them"
                raise Refusal(FORBIDDEN, detail)
            begun.add(queue)

    async def _has_handler(self, queue: str) -> bool:
        if queue in self._app.settings.queues or queue in {one.queue for one in self._app.served()}:
            return True
        return any(queue in worker.queues for worker in await live_workers(self._app.store))
