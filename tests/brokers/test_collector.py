"""Collecting dead letters: whatever fails on the way, each message is a letter, and it is one."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import aiormq
import pytest
from pamqp import commands

from redrive import Redrive
from redrive.brokers.carried import CarriedStore
from redrive.brokers.collector import Collector
from redrive.core.letters import DeadLetter
from tests.brokers.apps import RabbitBroker, body, letters, some_letters
from tests.brokers.outage import Outage
from tests.brokers.server import RabbitServer
from tests.faults.proxy import open_proxy
from tests.waiting import wait_until


def carried(app: Redrive) -> CarriedStore:
    assert isinstance(app.store, CarriedStore)
    return app.store


def numbers(found: Sequence[DeadLetter]) -> list[int]:
    return sorted(json.loads(one.message.body)["n"] for one in found)


async def is_empty(broker: RabbitBroker, queue: str) -> bool:
    return await broker.depth(queue) == 0


async def look_at(broker: RabbitBroker, queue: str) -> None:
    """Take the first message and leave without an answer, as a person does who looks at it."""
    connection = await aiormq.connect(broker.url)
    channel = await connection.channel()
    await channel.basic_get(queue)
    await connection.close()

    async def is_back() -> bool:
        return not await is_empty(broker, queue)

    await wait_until(is_back, 20, "the broker has it again")


def is_naming(kind: str, _: str, document: Any, **__: object) -> bool:
    """Whether a record is put that says which letters are about to be written."""
    return kind == "collected" and bool(document["letters"])


def is_clearing(kind: str, _: str, document: Any, **__: object) -> bool:
    return kind == "collected" and not document["letters"]


async def test_a_ledger_that_is_down_costs_a_letter_none_of_its_deliveries(broker: RabbitBroker) -> None:
    """A queue of other software drops what was given back too often, and RabbitMQ 4 does so by default."""
    await broker.declare("orders.failed", x_queue_type="quorum", x_delivery_limit=2)
    for n in range(5):
        await broker.put("orders.failed", body(n=n))
    app = broker.make_app(broker__collect="orders.failed=orders")
    async with app:
        outage = Outage(carried(app).ledger, "bury")
        async with app.on_duty():
            await wait_until(lambda: outage.calls > 5, 30, "many tries")
            outage.end()
            found = await some_letters(app, "orders", 5)
            await wait_until(lambda: is_empty(broker, "orders.failed"), 20, "all are acknowledged")
    assert numbers(found) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("done", [False, True], ids=["not written", "written"])
@pytest.mark.parametrize(
    ("call", "when"),
    [("bury", lambda _: True), ("put_record", is_naming), ("put_record", is_clearing)],
    ids=["letters", "names", "no names"],
)
async def test_a_letter_is_one_when_the_ledger_did_not_answer(
    broker: RabbitBroker, call: str, when: Callable[..., bool], done: bool
) -> None:
    await broker.declare("orders.failed")
    for n in (1, 1, 2):
        await broker.put("orders.failed", body(n=n), message_id="m-1")
    app = broker.make_app(broker__collect="orders.failed=orders")
    async with app:
        outage = Outage(carried(app).ledger, call, done=done, when=when)
        async with app.on_duty():
            await wait_until(lambda: outage.calls > 0, 30, "a try")
            outage.end()
            await some_letters(app, "orders", 3)
            await wait_until(lambda: is_empty(broker, "orders.failed"), 20, "all are acknowledged")
            found = await letters(app, "orders")
    assert numbers(found) == [1, 1, 2]


@pytest.mark.parametrize(
    ("call", "when"),
    [("bury", lambda _: True), ("put_record", is_clearing)],
    ids=["not written", "written"],
)
async def test_what_is_kept_while_the_connection_is_lost_is_one_letter_and_stalls_no_window(
    rabbitmq: RabbitServer,
    broker_url: str,
    broker: RabbitBroker,
    tmp_path: Path,
    call: str,
    when: Callable[..., bool],
) -> None:
    await broker.declare("orders.failed")
    for n in range(3):
        await broker.put("orders.failed", body(n=n))
    async with open_proxy(rabbitmq.port) as proxy:
        near = RabbitBroker(broker_url.replace(f":{rabbitmq.port}/", f":{proxy.port}/"), tmp_path)
        app = near.make_app(broker__collect="orders.failed=orders", broker__prefetch=3)
        async with app:
            outage = Outage(carried(app).ledger, call, when=when)
            async with app.on_duty():
                await wait_until(lambda: outage.calls > 1, 30, "the ledger was tried")
                await proxy.cut_now()
                tried = outage.calls
                await wait_until(lambda: outage.calls > tried + 1, 30, "it is tried again")
                outage.end()
                await some_letters(app, "orders", 3)
                for n in range(3, 6):
                    await broker.put("orders.failed", body(n=n))
                await some_letters(app, "orders", 6)
                await wait_until(lambda: is_empty(broker, "orders.failed"), 20, "all are acknowledged")
                found = await letters(app, "orders")
        await near.close()
    assert numbers(found) == [0, 1, 2, 3, 4, 5]
    assert not [one for one in found if "x-copy" in one.message.headers]


@pytest.mark.parametrize("own", [False, True], ids=["of other software", "of Redrive"])
async def test_a_collector_that_dies_before_it_acknowledges_leaves_one_letter_for_each(
    broker: RabbitBroker, own: bool
) -> None:
    await broker.declare("orders.failed")
    for n in (1, 2, 3):
        headers = {"x-redrive-id": f"id-{n}"} if own else {}
        await broker.put("orders.failed", body(n=n), message_id="m-1", headers=headers)
    app = broker.make_app(broker__collect="orders.failed=orders")
    async with app:
        if own:
            Outage(carried(app).carrier, "acknowledge")
        else:
            Outage(carried(app).ledger, "put_record", when=is_clearing)
        collector = Collector(carried(app))

        async def are_written() -> bool:
            await asyncio.gather(collector.step(), return_exceptions=True)
            return len(await letters(app, "orders")) == 3

        await wait_until(are_written, 20, "all are written")
    app = broker.make_app(broker__collect="orders.failed=orders")
    async with app, app.on_duty():
        await wait_until(lambda: is_empty(broker, "orders.failed"), 20, "all are acknowledged")
        found = await letters(app, "orders")
    assert numbers(found) == [1, 2, 3]


async def test_a_letter_that_is_equal_to_an_earlier_one_and_that_somebody_looked_at_is_another(
    broker: RabbitBroker,
) -> None:
    await broker.declare("orders.failed")
    await broker.put("orders.failed", body(n=1), message_id="m-1")
    app = broker.make_app(broker__collect="orders.failed=orders")
    async with app, app.on_duty():
        await some_letters(app, "orders")
        await wait_until(lambda: is_empty(broker, "orders.failed"), 20, "it is acknowledged")
    await broker.put("orders.failed", body(n=1), message_id="m-1")
    await look_at(broker, "orders.failed")
    app = broker.make_app(broker__collect="orders.failed=orders")
    async with app, app.on_duty():
        found = await some_letters(app, "orders", 2)
    assert len(found) == 2


async def test_two_collectors_at_once_swallow_nothing(broker: RabbitBroker) -> None:
    await broker.declare("orders.failed")
    for _ in range(60):
        await broker.put("orders.failed", body(n=1), message_id="m-1")
    first, second = (
        broker.make_app(broker__collect="orders.failed=orders", broker__prefetch=5) for _ in range(2)
    )
    async with first, second:
        collectors = [Collector(carried(app)) for app in (first, second)]

        async def all_here() -> bool:
            await asyncio.gather(*(one.step() for one in collectors), return_exceptions=True)
            return await is_empty(broker, "orders.failed") and len(await letters(first, "orders")) >= 60

        await wait_until(all_here, 60, "all are letters")
        for one in collectors:
            await one.stop()
        assert await broker.depth("orders.failed") == 0


async def test_a_letter_that_other_software_forwarded_is_one_in_the_queue_it_died_in(
    broker: RabbitBroker,
) -> None:
    for queue in ("orders", "orders.failed", "shipping.failed"):
        await broker.declare(queue)
    await broker.put("orders.failed", body(n=1), message_id="m-1")
    app = broker.make_app(broker__collect="orders.failed=orders, shipping.failed=shipping")
    async with app, app.on_duty():
        await some_letters(app, "orders")
        await app.dead_letters.redrive("queue:orders", canary=0)
        headers = await _headers_of_next(broker, "orders")
        for n in (1, 99):
            await broker.put("shipping.failed", body(n=n), headers=headers)
        found = await some_letters(app, "shipping", 2)
    assert numbers(found) == [1, 99]


@pytest.mark.parametrize("differs", ["body", "headers"])
async def test_messages_that_share_an_id_of_ours_and_differ_are_a_letter_each(
    broker: RabbitBroker, differs: str
) -> None:
    """Other software splits a message and copies its headers to each part."""
    await broker.declare("parts.failed")
    for n in range(3):
        part, headers = {"body": (n, {}), "headers": (7, {"part": n})}[differs]
        await broker.put("parts.failed", body(n=part), headers={"x-redrive-id": "abc", **headers})
    app = broker.make_app(broker__collect="parts.failed=parts")
    async with app, app.on_duty():
        await some_letters(app, "parts", 3)
        await broker.put("parts.failed", body(n=8), headers={"x-redrive-id": "other"})
        found = await some_letters(app, "parts", 4)
    assert numbers(found) == ([0, 1, 2, 8] if differs == "body" else [7, 7, 7, 8])


async def test_many_equal_letters_cost_a_look_each_and_not_a_look_for_each_pair(broker: RabbitBroker) -> None:
    await broker.declare("orders.failed")
    connection = await aiormq.connect(broker.url)
    channel = await connection.channel()
    for _ in range(600):
        equal = commands.Basic.Properties(message_id="m-1")
        await channel.basic_publish(b"{}", routing_key="orders.failed", properties=equal)
    await connection.close()
    app = broker.make_app(broker__collect="orders.failed=orders")
    async with app:
        ledger, looks = carried(app).ledger, list[int]()
        accounts = ledger.accounts

        async def counted(queue: str, ids: Sequence[str]) -> Any:
            looks.append(len(ids))
            return await accounts(queue, ids)

        ledger.accounts = counted  # type: ignore[method-assign]
        async with app.on_duty():

            async def all_here() -> bool:
                return await app.dead_letters.count() == 600

            await wait_until(all_here, 60, "all are letters")
    assert sum(looks) < 6_000


@pytest.mark.parametrize("plainest", [False, True])
async def test_a_letter_that_cannot_be_stored_as_it_is_is_stored_plainly_and_holds_up_nothing(
    broker: RabbitBroker, plainest: bool
) -> None:
    for queue in ("a.failed", "b.failed"):
        await broker.declare(queue)
    for n in range(5):
        await broker.put("a.failed", body(n=n), headers={"odd": "yes" if n == 2 else "no"})
    await broker.put("b.failed", body(n=7))
    app = broker.make_app(broker__collect="a.failed=a, b.failed=b")

    def is_odd(buried: Sequence[DeadLetter]) -> bool:
        odd = [one for one in buried if one.message.headers.get("odd") == "yes"]
        return any(plainest or "stored without" not in one.failures[-1].reason for one in odd)

    async with app:
        Outage(carried(app).ledger, "bury", when=is_odd, error=OverflowError("int too big"))
        async with app.on_duty():
            found = await some_letters(app, "a", 5)
            await some_letters(app, "b")
            await wait_until(lambda: is_empty(broker, "a.failed"), 20, "all are acknowledged")
    assert numbers(found) == [0, 1, 2, 3, 4]
    (plain,) = [one for one in found if "stored without" in one.failures[-1].reason]
    assert numbers([plain]) == [2]
    assert "OverflowError: int too big" in plain.failures[-1].reason
    assert ("odd" in plain.message.headers) != plainest


async def test_a_parked_letter_whose_failures_cannot_be_read_is_a_letter_with_a_reason(
    broker: RabbitBroker,
) -> None:
    await broker.declare("a.failed")
    parked = {"x-redrive-reason": "permanent", "x-redrive-failures": "{", "x-redrive-died-at": 2**63 - 1}
    await broker.put("a.failed", body(n=1), headers=parked)
    app = broker.make_app(broker__collect="a.failed=a")
    async with app, app.on_duty():
        (letter,) = await some_letters(app, "a")
    assert "cannot be read" in letter.failures[-1].reason


async def _headers_of_next(broker: RabbitBroker, queue: str) -> dict[str, Any]:
    found: list[dict[str, Any]] = []

    async def is_taken() -> bool:
        taken = await broker.take(queue)
        if taken is not None:
            found.append(dict(taken[1]))
        return bool(found)

    await wait_until(is_taken, 20, f"{queue} has a message")
    return found[0]


async def test_a_process_that_goes_off_duty_leaves_the_dead_letters_to_others(broker: RabbitBroker) -> None:
    """The one that collected is still open, and takes no more."""
    await broker.declare("orders.failed")
    first = broker.make_app(broker__collect="orders.failed=orders")
    async with first:
        async with first.on_duty():
            await broker.put("orders.failed", body(n=1))
            await some_letters(first, "orders", 1)
        await broker.put("orders.failed", body(n=2))
        await _headers_of_next(broker, "orders.failed")
