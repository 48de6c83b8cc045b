"""What other software may write into a message: none of it stops a queue, and each can be parked and read."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import pytest

from redrive import Permanent
from redrive.brokers.rabbitmq import frames, properties
from redrive.brokers.rabbitmq.properties import Properties, write_content_header
from tests.brokers.apps import RabbitBroker, body, letters, some_letters, working
from tests.waiting import wait_until

WAIT_S = 30.0


@pytest.mark.parametrize(
    "headers",
    [
        {"x-death": 5},
        {"x-death": [5, {"queue": "q.one", "reason": ["no text"], "routing-keys": 7}]},
        {"x-redrive-attempts": 2**62, "x-redrive-generation": -1, "x-redrive-tenant": 5},
        {"x-redrive-reason": "exhausted", "x-redrive-died-at": 2**63 - 1, "x-redrive-failures": "no JSON"},
    ],
    ids=["no list", "odd entries", "odd numbers", "an odd death"],
)
async def test_headers_that_are_nonsense_stop_no_queue(broker: RabbitBroker, headers: dict[str, Any]) -> None:
    app, seen = broker.make_app(), set[tuple[str, int]]()

    @app.handler("q.one")
    async def first(payload: dict[str, int]) -> None:
        seen.add(("one", payload["n"]))

    @app.handler("q.two")
    async def second(payload: dict[str, int]) -> None:
        seen.add(("two", payload["n"]))

    async with working(app):
        await app.store.carrier.open()  # type: ignore[attr-defined]
        await broker.put("q.one", body(n=1), headers=headers)
        await app.submit("q.one", {"n": 2})
        await app.submit("q.two", {"n": 3})
        wanted = {("one", 1), ("one", 2), ("two", 3)}
        await wait_until(lambda: seen == wanted, WAIT_S, "all ran")


async def test_a_message_whose_headers_fill_a_frame_is_parked_without_the_largest(
    broker: RabbitBroker,
) -> None:
    app = broker.make_app()

    @app.handler("q.one")
    async def handle(payload: dict[str, int]) -> None:
        raise Permanent("no " * 300)

    async with working(app):
        await app.store.carrier.open()  # type: ignore[attr-defined]
        table: Any = {"big": "x" * 131_000, "small": "kept"}
        await broker.write("q.one", body(n=1), Properties(delivery_mode=2, message_id="m", headers=table))
        await broker.put("q.one", body(n=2))
        found = await some_letters(app, "q.one", 2)
    (full,) = (one for one in found if one.message.body == body(n=1))
    assert full.message.headers["small"] == "kept"
    assert "big" not in full.message.headers


async def test_a_message_whose_headers_are_nested_too_deeply_is_parked(broker: RabbitBroker) -> None:
    deep: Any = 1
    for _ in range(400):
        deep = {"a": deep}
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(10_000)
    try:
        raw = write_content_header(Properties(delivery_mode=2, headers={"deep": deep}), len(body(n=1)))
    finally:
        sys.setrecursionlimit(limit)
    await _parks(broker, frames, "write_content_header", lambda *_: raw)


async def test_a_message_with_a_property_that_is_no_text_is_parked(broker: RabbitBroker) -> None:
    odd = b"\x64" + b"\xff" * 100
    fields = [
        (flag, name, read, (lambda _: odd) if name == "correlation_id" else write)
        for flag, name, read, write in properties._FIELDS
    ]
    await _parks(broker, properties, "_FIELDS", tuple(fields))


async def _parks(broker: RabbitBroker, module: ModuleType, name: str, value: object) -> None:
    """A message that other software wrote, with a writer of its own, becomes a letter; so does its
    neighbour."""
    app = broker.make_app()

    @app.handler("q.one")
    async def handle(payload: dict[str, int]) -> None:
        raise Permanent("no")

    async with app:
        await app.store.carrier.open()  # type: ignore[attr-defined]
        with pytest.MonkeyPatch.context() as theirs:
            theirs.setattr(module, name, value)
            await broker.write("q.one", body(n=1), Properties(delivery_mode=2, correlation_id="x"))
        await broker.put("q.one", body(n=2))
        async with working(app):
            await some_letters(app, "q.one", 2)


async def test_a_letter_whose_headers_look_like_ours_is_sent_back(broker: RabbitBroker) -> None:
    await broker.declare("orders")
    await broker.declare("orders.failed")
    await broker.put("orders.failed", body(n=1), headers={"h": {"$bytes": "abc"}, "t": {"$time": 2**40}})
    await broker.put("orders.failed", body(n=2))
    app = broker.make_app(broker__collect="orders.failed=orders")

    async def is_back() -> bool:
        return await broker.depth("orders") == 2

    async with app, app.on_duty():
        await some_letters(app, "orders", 2)
        await app.dead_letters.redrive("queue:orders", canary=0)
        await wait_until(is_back, WAIT_S, "both are back")
        assert not await letters(app, "orders")
