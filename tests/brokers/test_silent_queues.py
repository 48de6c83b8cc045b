"""A queue that does not tell its broker what it holds: RabbitMQ then says that it holds nothing."""

from __future__ import annotations

import asyncio
import math

import pytest

from redrive import Redrive
from redrive.core.store import QueueCounts
from tests.brokers.apps import RabbitBroker, body
from tests.brokers.server import RabbitServer


async def test_a_queue_that_is_slow_to_tell_is_asked_again(
    rabbitmq: RabbitServer, broker: RabbitBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("redrive.brokers.rabbitmq.gauge._PATIENCE_S", math.inf)
    async with broker.make_app() as app:
        await _hold_three(app, rabbitmq, broker)
        looking = asyncio.create_task(_counts(app))
        await _let(rabbitmq, broker, "resume")
        assert (await looking).broker_waiting == 3


async def test_what_a_silent_queue_holds_is_not_known(
    rabbitmq: RabbitServer, broker: RabbitBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("redrive.brokers.rabbitmq.gauge._PATIENCE_S", 0.5)
    async with broker.make_app() as app:
        await _hold_three(app, rabbitmq, broker)
        assert (await _counts(app)).broker_waiting is None
        await _let(rabbitmq, broker, "resume")


async def _hold_three(app: Redrive, rabbitmq: RabbitServer, broker: RabbitBroker) -> None:
    await app.store.carrier.open()  # type: ignore[attr-defined]
    for n in range(3):
        await broker.put("q.one", body(n=n))
    await _let(rabbitmq, broker, "suspend")


async def _let(rabbitmq: RabbitServer, broker: RabbitBroker, what: str) -> None:
    """Suspend or resume the process of the queue."""
    host = broker.url.rpartition("/")[2]
    await asyncio.to_thread(rabbitmq.control, "eval", f"sys:{what}('{host}_q.one').")


async def _counts(app: Redrive) -> QueueCounts:
    return next(one for one in await app.store.queues() if one.queue == "q.one")
