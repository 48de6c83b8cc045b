"""The ways of a message through a declared topology, on a real broker: what fails, expires, is rejected or
loses its consumer is somewhere to be found, and nowhere twice."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aio_pika
import pytest
from aio_pika.abc import AbstractChannel, AbstractIncomingMessage

from redrive.brokers.rabbitmq.design import QueueDesign, RetryMode, TopologyDesign
from redrive.brokers.rabbitmq.live import declare
from redrive.brokers.rabbitmq.topology import DeclaredExchange, QueueType
from tests.waiting import wait_until

WAIT_S = 20.0


def fixed(**more: object) -> QueueDesign:
    return QueueDesign(name="q.orders", bindings={"events": ("orders.*",)}, retry_ttl_s=0.2, **more)  # type: ignore[arg-type]


def backoff(**more: object) -> QueueDesign:
    return QueueDesign(name="q.orders", retry=RetryMode.BACKOFF, steps_s=(0.1, 0.3), **more)  # type: ignore[arg-type]


async def stand(url: str, *queues: QueueDesign) -> None:
    await declare(url, TopologyDesign((DeclaredExchange("events", "topic"),), queues), frozenset())


@asynccontextmanager
async def channel(url: str) -> AsyncIterator[AbstractChannel]:
    async with await aio_pika.connect(url) as connection:
        yield await connection.channel()


async def publish(url: str, body: bytes, *, exchange: str = "", key: str = "q.orders") -> None:
    """A queue that was just declared may refuse a message at first."""

    async def taken() -> bool:
        async with channel(url) as here:
            to = await here.get_exchange(exchange) if exchange else here.default_exchange
            try:
                await to.publish(aio_pika.Message(body, delivery_mode=2), key, mandatory=True)
            except aio_pika.exceptions.DeliveryError:
                return False
            return True

    await wait_until(taken, WAIT_S, f"{key} takes a message")


async def first(here: AbstractChannel, queue: str) -> AbstractIncomingMessage:
    """The next message of a queue, as soon as it is there."""
    async with (await here.get_queue(queue)).iterator(timeout=WAIT_S) as messages:
        return await anext(messages)


async def is_empty(url: str, queue: str) -> bool:
    async with channel(url) as here:
        return await (await here.get_queue(queue)).get(fail=False) is None


@pytest.mark.parametrize("kind", QueueType)
async def test_what_is_rejected_comes_back_to_its_own_queue_and_reaches_no_neighbour(
    broker_url: str, kind: QueueType
) -> None:
    audit = QueueDesign(name="q.audit", bindings={"events": ("#",)})
    await stand(broker_url, fixed(type=kind), audit)
    await publish(broker_url, b"one", exchange="events", key="orders.new")
    async with channel(broker_url) as here:
        for attempt in range(3):
            message = await first(here, "q.orders")
            died = [one for one in message.headers.get("x-death", []) if one["queue"] == "q.orders"]
            assert sum(one["count"] for one in died) == attempt
            await message.reject(requeue=False)
        await (await first(here, "q.orders")).ack()
        await (await first(here, "q.audit")).ack()
    for queue in ("q.audit", "q.orders", "q.orders.retry", "q.orders.dlq"):
        assert await is_empty(broker_url, queue)


async def test_in_fixed_mode_no_number_of_lost_consumers_kills_a_message(broker_url: str) -> None:
    await stand(broker_url, fixed())
    await publish(broker_url, b"one")
    for crash in range(25):
        async with channel(broker_url) as here:
            message = await first(here, "q.orders")
            assert message.headers.get("x-delivery-count", 0) == crash


async def test_in_backoff_mode_what_loses_its_consumers_too_often_is_a_dead_letter(broker_url: str) -> None:
    await stand(broker_url, backoff(delivery_limit=2))
    await publish(broker_url, b"one")
    for _ in range(3):
        async with channel(broker_url) as here:
            await first(here, "q.orders")
    async with channel(broker_url) as here:
        letter = await first(here, "q.orders.dlq")
    assert letter.body == b"one"
    assert letter.headers["x-first-death-reason"] == "delivery_limit"


@pytest.mark.parametrize("kind", QueueType)
async def test_what_expires_in_a_queue_with_a_ttl_is_a_dead_letter(broker_url: str, kind: QueueType) -> None:
    await stand(broker_url, backoff(type=kind, message_ttl_s=0.1))
    await publish(broker_url, b"one")
    async with channel(broker_url) as here:
        letter = await first(here, "q.orders.dlq")
    assert (letter.body, letter.headers["x-first-death-reason"]) == (b"one", "expired")


async def test_a_short_delay_does_not_wait_behind_a_long_one(broker_url: str) -> None:
    design = QueueDesign(name="q.orders", retry=RetryMode.BACKOFF, steps_s=(0.1, 60))
    await stand(broker_url, design)
    await publish(broker_url, b"late", exchange=design.retry_exchange, key=design.step(60).routing_key)
    await publish(broker_url, b"soon", exchange=design.retry_exchange, key=design.step(0).routing_key)
    async with channel(broker_url) as here:
        message = await first(here, "q.orders")
        assert message.body == b"soon"


async def test_a_dead_letter_that_is_rejected_stays_a_dead_letter(broker_url: str) -> None:
    await stand(broker_url, fixed())
    await publish(broker_url, b"one", exchange="dlq.q.orders", key="parking")
    async with channel(broker_url) as here:
        for _ in range(3):
            letter = await first(here, "q.orders.dlq")
            assert letter.body == b"one"
            await letter.reject(requeue=False)
