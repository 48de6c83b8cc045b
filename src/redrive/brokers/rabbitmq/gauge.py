"""How much queues hold, asked of the broker without touching a message."""

from __future__ import annotations

import asyncio
import time
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

_TOLD_S = 0.2
"""RabbitMQ says that a quorum queue holds nothing when the queue has not told it for a quarter of a second;
this is less, since no two round trips take the same time."""

_PATIENCE_S = 3.0
"""How long queues are asked again, all together, before it is not known what they hold."""


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
        self._round_trip_s, self._silence_s = 0.0, 0.0

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._leave()

    async def depth(self, design: QueueDesign, ours: bool) -> Depth:
        """What a queue and its dead-letter queue hold; one of ours has others where messages wait again."""
        held, dead, retrying = await self._told(design.name), await self._told(design.dlq), 0
        for name in design.waiting_queues if ours else ():
            found = await self._told(name)
            retrying += 0 if found is None else found.messages
        return Depth(
            None if held is None else held.messages,
            None if dead is None else dead.messages,
            retrying,
            0 if held is None else held.consumers,
        )

    async def held(self, queue: str) -> QueueHolding | None:
        """What the broker says that a queue holds; None: there is none of that name."""
        channel = await self._open()
        try:
            with translated(self._place):
                async with asyncio.timeout(ANSWER_S):
                    found = await channel.queue_declare(queue, passive=True)
        except BrokerUnavailable as error:
            await self._leave()
            if is_gone(error):
                return None
            raise
        return QueueHolding(found.message_count or 0, found.consumer_count or 0)

    async def _told(self, queue: str) -> QueueHolding | None:
        """The same, once the queue has told it; BrokerUnavailable where it does not."""
        while True:
            await self._open()
            began_s = time.monotonic()
            found = await self.held(queue)
            took_s = time.monotonic() - began_s - self._round_trip_s
            if found is None or found.messages or took_s < _TOLD_S:
                return found
            self._silence_s += took_s
            if self._silence_s > _PATIENCE_S:
                raise BrokerUnavailable(f"{self._place} does not know what {queue} holds: it is overloaded")

    async def _open(self) -> AbstractChannel:
        """The channel; how long an answer takes that no queue is asked for is known from then on."""
        if self._channel is None:
            self._channel = await self._line.channel(confirms=False)
            began_s = time.monotonic()
            with translated(self._place):
                async with asyncio.timeout(ANSWER_S):
                    await self._channel.basic_qos(prefetch_count=1)
            self._round_trip_s = time.monotonic() - began_s
        return self._channel

    async def _leave(self) -> None:
        channel, self._channel = self._channel, None
        if channel is not None:
            await close_quietly(channel)


def is_gone(error: BrokerUnavailable) -> bool:
    """Whether the broker says that there is no such queue."""
    return isinstance(error.__cause__, aiormq.exceptions.ChannelNotFoundEntity)
