"""A store or a broker that does not answer one call, before or after it did what was asked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import aiormq

from redrive.core.errors import StoreUnavailable
from tests.brokers.apps import RabbitBroker
from tests.waiting import wait_until


class Unanswered:
    """One call of a method that gets no answer; `done` says that the call was done all the same."""

    def __init__(
        self,
        owner: object,
        name: str,
        when: Callable[..., bool] = lambda *_, **__: True,
        *,
        done: bool = False,
    ) -> None:
        self._real = getattr(owner, name)
        self._when, self._done = when, done
        self.happened = False
        setattr(owner, name, self._call)

    async def _call(self, *given: Any, **named: Any) -> Any:
        if self.happened or not self._when(*given, **named):
            return await self._real(*given, **named)
        self.happened = True
        if self._done:
            await self._real(*given, **named)
        raise StoreUnavailable("no answer, for the test")


async def lose_worker(broker: RabbitBroker, queue: str, times: int) -> None:
    """Let so many consumers be lost with the first message of a queue."""
    connection = await aiormq.connect(broker.url)
    waits = await broker.depth(queue)

    async def is_back() -> bool:
        return await broker.depth(queue) == waits

    for _ in range(times):
        channel = await connection.channel()
        await channel.basic_get(queue)
        await channel.close()
        await wait_until(is_back, 20, "the broker has it again")
    await connection.close()
