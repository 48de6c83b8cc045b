"""How much queues hold, asked of the broker without touching a message."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import NamedTuple, Self

import aiormq
from aiormq.abc import AbstractChannel

from redrive.brokers.rabbitmq.connection import (
    ANSWER_S,
    BrokerLine,
    BrokerUnavailable,
    close_quietly,
    translated,
)
from redrive.brokers.rabbitmq.design import QueueDesign
from redrive.core.carrier import Depth


class QueueHolding(NamedTuple):
    """The messages that are ready in a queue, and how many are handed them."""

    messages: int
    consumers: int


class QueueGauge:
    """Asks over one channel, and over a new one after a queue that is not there: the broker closes that."""

    def __init__(self, line: BrokerLine, place: str) -> None:
        self._line = line
        self._place = place
        self._channel: AbstractChannel | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._leave()

    async def depth(self, design: QueueDesign, ours: bool) -> Depth:
        """What a queue and its dead-letter queue hold; one of ours has others where messages wait again."""
        held, dead, retrying = await self.held(design.name), await self.held(design.dlq), 0
        for name in design.waiting_queues if ours else ():
            found = await self.held(name)
            retrying += 0 if found is None else found.messages
        return Depth(
            None if held is None else held.messages,
            None if dead is None else dead.messages,
            retrying,
            0 if held is None else held.consumers,
        )

    async def held(self, queue: str) -> QueueHolding | None:
        """What a queue holds; None: there is none of that name."""
        if self._channel is None:
            self._channel = await self._line.channel(confirms=False)
        try:
            with translated(self._place):
                async with asyncio.timeout(ANSWER_S):
                    found = await self._channel.queue_declare(queue, passive=True)
        except BrokerUnavailable as error:
            await self._leave()
            if is_gone(error):
                return None
            raise
        return QueueHolding(found.message_count or 0, found.consumer_count or 0)

    async def _leave(self) -> None:
        channel, self._channel = self._channel, None
        if channel is not None:
            await close_quietly(channel)


def is_gone(error: BrokerUnavailable) -> bool:
    """Whether the broker says that there is no such queue."""
    return isinstance(error.__cause__, aiormq.exceptions.ChannelNotFoundEntity)
