"""A live broker over AMQP: what is missing or different there, and the declaring of what is missing.

Over AMQP a broker tells whether a name is taken, and whether a declaration equals what stands there as far as
it compares; a binding it never tells, so every one of them is made again, which changes nothing where it is.
Nothing is ever deleted here.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from redrive.brokers.rabbitmq.address import place_of
from redrive.brokers.rabbitmq.design import TopologyDesign
from redrive.brokers.rabbitmq.difference import (
    ChangeKind,
    TopologyChange,
    TopologyPart,
    binding_name,
    different_exchange,
    different_queue,
    missing,
)
from redrive.brokers.rabbitmq.topology import DeclaredExchange, DeclaredQueue
from redrive.core.errors import MissingExtra

try:
    import aiormq
    from aiormq.abc import AbstractConnection

    from redrive.brokers.rabbitmq.connection import BrokerLine, translated
    from redrive.brokers.rabbitmq.declare import declare_all, declare_exchange, declare_queue
except ImportError as error:
    raise MissingExtra("amqp://", "rabbitmq") from error


async def probe(url: str, design: TopologyDesign) -> tuple[TopologyChange, ...]:
    """The differences that AMQP shows: what is missing, and what stands there with other settings."""
    async with _connected(url) as connection:
        found: list[TopologyChange | None] = []
        wanted = design.topology()
        for exchange in wanted.exchanges:
            found.append(await _probe_exchange(connection, exchange))
        for queue in wanted.queues:
            found.append(await _probe_queue(connection, design, queue))
        return tuple(change for change in found if change is not None)


async def declare(url: str, design: TopologyDesign, left_out: frozenset[str]) -> None:
    """Declare all of a topology, without the exchanges and queues that stand there with other settings."""
    async with _connected(url) as connection:
        await declare_all(await connection.channel(), design.topology(), left_out)


def in_the_way(changes: tuple[TopologyChange, ...]) -> frozenset[str]:
    """The names that cannot be declared before a person has migrated them."""
    return frozenset(one.name for one in changes if one.kind is ChangeKind.MIGRATE)


def bindings_of(design: TopologyDesign) -> tuple[TopologyChange, ...]:
    """Every binding as something to ensure: AMQP does not tell which are there."""
    return tuple(
        TopologyChange(ChangeKind.ENSURE, TopologyPart.BINDING, binding_name(one))
        for one in design.topology().bindings
    )


async def _probe_exchange(connection: AbstractConnection, wanted: DeclaredExchange) -> TopologyChange | None:
    channel = await connection.channel()
    try:
        await channel.exchange_declare(wanted.name, passive=True)
    except aiormq.exceptions.ChannelNotFoundEntity:
        return missing(TopologyPart.EXCHANGE, wanted.name)
    try:
        await declare_exchange(channel, wanted)
    except aiormq.exceptions.ChannelPreconditionFailed as error:
        return different_exchange(wanted.name, (_said(error),))
    await channel.close()
    return None


async def _probe_queue(
    connection: AbstractConnection, design: TopologyDesign, wanted: DeclaredQueue
) -> TopologyChange | None:
    channel = await connection.channel()
    try:
        await channel.queue_declare(wanted.name, passive=True)
    except aiormq.exceptions.ChannelNotFoundEntity:
        return missing(TopologyPart.QUEUE, wanted.name)
    try:
        await declare_queue(channel, wanted)
    except aiormq.exceptions.ChannelPreconditionFailed as error:
        return different_queue(design, wanted.name, (_said(error),))
    await channel.close()
    return None


def _said(error: Exception) -> str:
    """The broker's own words about what differs."""
    return str(error).removeprefix("PRECONDITION_FAILED - ")


@asynccontextmanager
async def _connected(url: str) -> AsyncIterator[AbstractConnection]:
    place = place_of(url)
    line = BrokerLine(url, place, "redrive topology")
    connection = await line.connection()
    try:
        with translated(place):
            yield connection
    finally:
        await line.close()
