"""Exchanges, queues and bindings, declared on a live broker; what stands already stays as it is.

The driver's own error says when something stands there with other settings.
"""

from __future__ import annotations

import asyncio
import time

from aiormq.abc import AbstractChannel

from redrive.brokers.rabbitmq.topology import DeclaredExchange, DeclaredQueue, Topology

FIRST_SECOND_S = 1.5


class FirstSecond:
    """The time in which nothing may be put into quorum queues that were declared.

    RabbitMQ writes down under which name it keeps a quorum queue's log up to a second after the declaration
    (a table of Ra that saves itself after half a second without changes). A node that is killed before starts
    the queue anew, without what was confirmed into it. A broker does not tell whether a queue is new, or was
    declared by somebody else just now, so this holds after every declaration.
    """

    def __init__(self) -> None:
        self._until_s = 0.0

    def begin(self) -> None:
        """A queue was declared."""
        self._until_s = time.monotonic() + FIRST_SECOND_S

    async def over(self) -> None:
        """Return when what was declared last outlives its node."""
        left_s = self._until_s - time.monotonic()
        if left_s > 0:
            await asyncio.sleep(left_s)
            await self.over()


async def declare_all(
    channel: AbstractChannel, topology: Topology, left_out: frozenset[str] = frozenset()
) -> None:
    """Declare everything of a topology, without the exchanges and queues that are left out.

    Bindings are made last, so that nothing is routed into half a topology; those of a queue that is left out
    too, since it is there.
    """
    for exchange in topology.exchanges:
        if exchange.name not in left_out:
            await declare_exchange(channel, exchange)
    for queue in topology.queues:
        if queue.name not in left_out:
            await declare_queue(channel, queue)
    for binding in topology.bindings:
        await channel.queue_bind(binding.queue, binding.exchange, binding.routing_key)


async def declare_exchange(channel: AbstractChannel, one: DeclaredExchange) -> None:
    """Declare an exchange."""
    await channel.exchange_declare(
        one.name,
        exchange_type=one.type,
        durable=one.durable,
        auto_delete=one.auto_delete,
        internal=one.internal,
        arguments=dict(one.arguments),
    )


async def declare_queue(channel: AbstractChannel, one: DeclaredQueue) -> None:
    """Declare a queue."""
    await channel.queue_declare(
        one.name, durable=one.durable, auto_delete=one.auto_delete, arguments=dict(one.arguments)
    )
