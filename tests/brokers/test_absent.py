"""A queue that `broker.collect` names and the broker does not have: it is told, and no other waits for it."""

from __future__ import annotations

import pytest

from redrive.brokers.carried import CarriedStore
from redrive.brokers.collector import Collector
from redrive.core.condition import Grade
from tests.brokers.apps import RabbitBroker, body, some_letters
from tests.waiting import wait_until


async def test_the_queues_beside_it_are_collected_and_it_is_told_once(
    broker: RabbitBroker, caplog: pytest.LogCaptureFixture
) -> None:
    await broker.declare("orders.dead")
    app = broker.make_app(broker__collect="nowhere.dead, orders.dead")
    async with app:
        store = app.store
        assert isinstance(store, CarriedStore)
        collector = Collector(store)
        await broker.put("orders.dead", body(n=1))

        async def is_here() -> bool:
            await collector.step()
            return await app.dead_letters.count() == 1

        await wait_until(is_here, 20, "the letter beside it is collected, and no step fails")
        assert caplog.text.count("broker.collect names nowhere.dead, and the broker has no such queue") == 1
        findings = {one.subject: one for one in await store.examine()}
        assert findings["nowhere.dead"].grade is Grade.WRONG
        assert "broker.collect" in findings["nowhere.dead"].fix
        await collector.stop()


async def test_it_is_collected_once_it_is_there(
    broker: RabbitBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("redrive.brokers.rabbitmq.absent.LOOK_S", 0.1)
    app = broker.make_app(broker__collect="late.dead=late")
    async with app, app.on_duty():
        carrier = app.store.carrier  # type: ignore[attr-defined]

        async def was_looked_for() -> bool:
            return bool(carrier.absent.names)

        await wait_until(was_looked_for, 20, "it was looked for")
        await broker.declare("late.dead")
        await broker.put("late.dead", body(n=1))
        await some_letters(app, "late")
        assert not carrier.absent.names
