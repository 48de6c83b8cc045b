"""What waits on a broker is seen where operators look: status, metrics, health and alerts."""

from __future__ import annotations

from typing import Any

import aiormq

from redrive import Redrive
from redrive.core.alert_rules import DEFAULT_RULES
from redrive.core.alerts import Reading
from redrive.core.condition import Durability
from redrive.office.alerts.figures import FigureReader
from redrive.office.alerts.look import Look
from redrive.office.audit import this_account
from redrive.office.queues import QueueStatus
from redrive.wiring import load
from tests.brokers.apps import RabbitBroker, body, working
from tests.brokers.server import RabbitServer
from tests.servers import free_port
from tests.waiting import wait_until

SLOW = '[queues."q.one"]\nretry_ttl_s = 60\n[queues."q.steps"]\nretry = "backoff"\nsteps_s = [60, 90]\n'


async def test_what_waits_on_the_broker_is_counted_and_nobody_serving_it_is_told(
    broker: RabbitBroker,
) -> None:
    app = broker.make_app()
    async with app:
        await app.store.carrier.open()  # type: ignore[attr-defined]
        for n in range(3):
            await broker.put("q.one", body(n=n))
        status = (await _statuses(app))["q.one"]
        assert (status.counts.pending, status.no_handler) == (3, True)
        assert (await _read(app, "no_worker")) == [Reading("q.one", 3)]
        health = await app.office.acting(this_account("test")).outbox.health()
        assert health.metrics.pending == 3


async def test_what_waits_on_the_broker_for_an_inbox_is_counted_too(broker: RabbitBroker) -> None:
    app = broker.make_app(**{"queues.q.one.inbox": True})
    async with app:
        await app.store.carrier.open()  # type: ignore[attr-defined]
        for n in range(2):
            await broker.put("q.one", body(n=n))
        status = (await _statuses(app))["q.one"]
        assert (status.counts.pending, status.no_handler) == (2, True)


async def test_what_other_software_consumes_is_served(broker: RabbitBroker) -> None:
    app = broker.make_app()
    async with app:
        await app.store.carrier.open()  # type: ignore[attr-defined]
        for n in range(3):
            await broker.put("q.one", body(n=n))
        connection = await aiormq.connect(broker.url)
        channel = await connection.channel()
        await channel.basic_qos(prefetch_count=1)
        await channel.basic_consume("q.one", _keep)

        async def one_is_out() -> bool:
            return (await _statuses(app))["q.one"].counts.pending == 2

        await wait_until(one_is_out, 20, "the consumer of others has one")
        status = (await _statuses(app))["q.one"]
        assert not status.no_handler
        assert await _read(app, "no_worker") == []
        await connection.close()


async def test_what_waits_for_another_try_on_the_broker_is_the_retry_backlog(broker: RabbitBroker) -> None:
    app = broker.make_app(topology=SLOW)

    @app.handler("q.one")
    @app.handler("q.steps")
    async def handle(payload: dict[str, Any]) -> None:
        raise ValueError("the scanner is away")

    async with working(app):
        for n in range(2):
            await app.submit("q.one", {"n": n})
        await app.submit("q.steps", {"n": 2})

        async def both_wait() -> bool:
            found = await _statuses(app)
            return (found["q.one"].counts.retry_scheduled, found["q.steps"].counts.retry_scheduled) == (2, 1)

        await wait_until(both_wait, 20, "two wait in the retry queue, one in a step")
        assert await _read(app, "retry_backlog") == [Reading("", 3)]


async def test_what_waits_for_a_broker_that_is_down_is_served_by_any_worker(broker: RabbitBroker) -> None:
    broker.make_app()
    app = Redrive(settings=load({**broker.given, "store": f"amqp://127.0.0.1:{free_port()}/"}, environ={}))

    @app.handler("q.one")
    async def handle(payload: dict[str, Any]) -> None:
        """Nothing arrives."""

    async with app:
        await app.submit("q.one", {"n": 1})
        assert (await _statuses(app))["q.one:outbox"].no_handler, "nobody is there to relay it"
    async with working(app):

        async def is_served() -> bool:
            status = (await _statuses(app))["q.one:outbox"]
            return status.workers == 1 and not status.no_handler

        await wait_until(is_served, 20, "the worker is alive")
        assert await _read(app, "no_worker") == []


async def test_a_broker_that_is_away_or_refuses_us_is_an_alert(
    broker: RabbitBroker, rabbitmq: RabbitServer
) -> None:
    async with broker.make_app() as app:
        assert await _read(app, "broker_lost") == [Reading("", 0)]
    away = f"amqp://127.0.0.1:{free_port()}/"
    refusing = f"{rabbitmq.url}nowhere"
    for address, why in ((away, "does not answer"), (refusing, "vhost nowhere not found")):
        async with Redrive(settings=load({**broker.given, "store": address}, environ={})) as app:
            (reading,) = await _read(app, "broker_lost")
            assert reading.value == 1
            assert why in reading.detail
            described = await app.store.describe()
            assert (described.lost, described.durability) == (True, Durability.UNKNOWN)


async def _keep(_: Any) -> None:
    """Neither acknowledge nor give back."""


async def _statuses(app: Redrive) -> dict[str, QueueStatus]:
    found = await app.office.acting(this_account("test")).queues.every()
    return {one.counts.queue: one for one in found}


async def _read(app: Redrive, rule: str) -> list[Reading]:
    """What an alert is judged by now."""
    store, index = app.office.store, app.office.index
    return await FigureReader(store, index).read(DEFAULT_RULES[rule], Look(store, index))
