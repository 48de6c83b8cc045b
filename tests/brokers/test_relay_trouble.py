"""A broker that is away while messages wait for it: what its relay says, and when it is over."""

from __future__ import annotations

from pathlib import Path

import pytest

from redrive import Redrive
from redrive.brokers.carried import CarriedStore
from redrive.brokers.relay import Publications
from redrive.core.errors import StoreError, StoreUnavailable
from redrive.wiring import load
from tests.brokers.apps import RabbitBroker
from tests.servers import free_port
from tests.waiting import wait_until

UNBOUND = '[exchanges]\n"events" = "topic"\n[queues."q.one"]\n'


async def test_a_broker_that_is_away_is_not_said_to_be_back_between_two_tries(tmp_path: Path) -> None:
    address = f"amqp://127.0.0.1:{free_port()}/"
    app = Redrive(settings=load({"store": address, "data": str(tmp_path)}, environ={}))
    async with app:
        await app.submit("q.one", {"n": 1})
        relay = Publications(_carried(app))
        for _ in range(10):
            with pytest.raises(StoreUnavailable, match="does not answer"):
                await relay.step()
        assert await app.store.purge("q.one", actor="test") == 1
        assert await relay.step() > 0, "nothing waits for it any more"


async def test_messages_that_no_queue_takes_are_told_at_first_and_then_now_and_then(
    broker: RabbitBroker,
) -> None:
    app = broker.make_app(topology=UNBOUND)
    async with app:
        store = _carried(app)
        relay, told, tries = Publications(store), list[str](), [0]
        publish = store.carrier.publish

        async def counted(messages: object) -> object:
            tries[0] += 1
            return await publish(messages)  # type: ignore[arg-type]

        store.carrier.publish = counted  # type: ignore[method-assign, assignment]
        await app.submit("events", {"n": 1}, headers={"routing-key": "nobody"})

        async def tried_ten_times() -> bool:
            store.ledger.skew_ms += 10_000
            try:
                await relay.step()
            except StoreError as error:
                told.append(str(error))
            return tries[0] >= 10

        await wait_until(tried_ten_times, 30, "it was tried ten times")
        assert len(told) == 2
        assert "no queue takes 1 message" in told[0]


def _carried(app: Redrive) -> CarriedStore:
    store = app.store
    assert isinstance(store, CarriedStore)
    return store
