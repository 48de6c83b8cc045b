"""What a broker handed over runs, or is judged, although the ledger or the broker fails meanwhile."""

from __future__ import annotations

import asyncio
from typing import Any

from redrive import Permanent
from redrive.core.errors import StoreError
from redrive.core.lifecycle import State
from redrive.core.message import Delivery
from redrive.core.ports import Claim
from redrive.core.verdict import Complete, Reason, Settlement
from redrive.telemetry.events import Event, LoopFailed, SettleRefused
from tests.brokers.apps import RabbitBroker, body, letters, some_letters, working
from tests.brokers.failing import Unanswered, lose_worker
from tests.waiting import wait_until


async def test_what_arrived_while_the_ledger_did_not_answer_is_handed_out_by_the_next_claim(
    broker: RabbitBroker,
) -> None:
    app, seen = broker.make_app(), set[int]()

    @app.handler("q.one")
    async def handle(payload: dict[str, Any]) -> None:
        seen.add(payload["n"])

    async with app:
        await app.store.carrier.open()  # type: ignore[attr-defined]
        for n in range(5):
            await broker.put("q.one", body(n=n))
        await lose_worker(broker, "q.one", 2)
        asks = Unanswered(_ledger(app), "list_records", lambda kind, **_: kind == "carried-returned")
        async with working(app):
            await wait_until(lambda: asks.happened, 20, "the ledger did not answer once")
            await wait_until(lambda: seen == set(range(5)), 20, "all ran")


async def test_a_lost_message_that_could_not_be_parked_is_parked_later(broker: RabbitBroker) -> None:
    app, seen = broker.make_app(), list[int]()

    @app.handler("q.one")
    async def handle(payload: dict[str, Any], delivery: Delivery) -> None:
        seen.append(payload["n"])

    async with app:
        await app.store.carrier.open()  # type: ignore[attr-defined]
        await broker.put("q.one", body(n=1), message_id="m-1")
        await lose_worker(broker, "q.one", 2)
        (lost,) = await _judged(app, "q.one")
        await _ledger(app).put_record(
            "carried-alone", f"q.one/{lost.message.id}/0", {"crashes": 2}, expected=None
        )
    async with app:
        parks = Unanswered(app.store.carrier, "park")  # type: ignore[attr-defined]
        async with working(app):
            await wait_until(lambda: parks.happened, 20, "parking failed once")
            (letter,) = await some_letters(app, "q.one")
    assert (letter.reason, seen) == (Reason.WORKER_LOST, [])


async def test_what_is_taken_over_under_a_token_is_taken_over_again_until_it_is_settled(
    broker: RabbitBroker,
) -> None:
    app = broker.make_app()
    async with app:
        await app.store.carrier.open()  # type: ignore[attr-defined]
        await broker.put("q.one", body(n=1))
        await lose_worker(broker, "q.one", 2)
        first = await _judged(app, "q.one")
        assert await app.store.reclaim("q.one", "again", 30, 10) == first
        await app.store.settle([Settlement(first[0], Complete())])
        assert await app.store.reclaim("q.one", "again", 30, 10) == []


async def test_outcomes_that_a_broker_refuses_for_long_are_told_once_it_takes_them(
    broker: RabbitBroker,
) -> None:
    """Somebody declares the dead-letter exchange with another type, and puts that right much later."""
    app, seen = broker.make_app(worker__lease_s=1, broker__prefetch=5), set[int]()
    all_are_held, held, given_up = asyncio.Event(), set[str](), set[str]()

    @app.handler("q.one")
    async def handle(payload: dict[str, Any], delivery: Delivery) -> None:
        seen.add(payload["n"])
        held.add(delivery.message.id)
        if len(held) == 5:
            all_are_held.set()
        await all_are_held.wait()  # the first refusal ends the claims of this queue
        if payload["n"] < 5:
            raise Permanent("no")

    @app.handler("q.two")
    async def well(payload: dict[str, Any]) -> None: ...

    def hear(event: Event) -> None:
        """Nobody takes its outcome, or its lease ended before that was said."""
        match event:
            case LoopFailed("settle", StoreError() as error):
                given_up.update(one for one in held if one in str(error))
            case SettleRefused(delivery):
                given_up.update(held & {delivery.message.id})

    async def all_given_up() -> bool:
        await app.submit("q.two", {})
        return len(given_up) == 5

    app.telemetry.add(hear)

    async with working(app):
        await app.store.carrier.open()  # type: ignore[attr-defined]
        await _declare_otherwise(broker, "dlq.q.one")
        for n in range(5):
            await app.submit("q.one", {"n": n})
        await wait_until(all_given_up, 60, "the engine gave them up")
        await broker.delete(exchange="dlq.q.one")
        await app.submit("q.one", {"n": 7})
        await some_letters(app, "q.one", 5)
        await wait_until(lambda: 7 in seen, 20, "there is room for the next one")
        assert len(await letters(app, "q.one")) == 5


async def _declare_otherwise(broker: RabbitBroker, exchange: str) -> None:
    import aiormq

    connection = await aiormq.connect(broker.url)
    channel = await connection.channel()
    await channel.exchange_delete(exchange)
    await channel.exchange_declare(exchange, exchange_type="fanout", durable=True)
    await connection.close()


async def _judged(app: Any, queue: str) -> list[Delivery]:
    """What lost workers had, once it has arrived here."""
    found = list[Delivery]()

    async def some() -> bool:
        await app.store.claim(Claim(queue, "claims", 10, 30))
        found.extend(await app.store.reclaim(queue, "again", 30, 10))
        return bool(found)

    await wait_until(some, 20, "it has arrived")
    assert {one.progress.state for one in found} == {State.CLAIMED}
    return found


def _ledger(app: Any) -> Any:
    return app.store.ledger
