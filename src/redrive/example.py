"""The example that `redrive up` runs: a shop whose payments fail on purpose. It sends nothing anywhere.

Three tenants order, acme in bursts; what becomes of an order follows from its number alone, so every run
tells the same stories. Its queues begin with `example:`, so that it never serves a real one.
"""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime, timedelta
from itertools import count

import msgspec

from redrive import Delivery, Later, Permanent, Redrive, Submission, Temporary
from redrive.config import Settings
from redrive.core.message import Message

ORDERS = "example:orders"
EMAILS = "example:emails"
_NOUNS = {ORDERS: "order", EMAILS: "confirmation"}

_TURNS = ("acme", "globex", "acme", "initech", "acme", "globex", "acme", "acme", "globex", "acme")
_PACE_S = 0.15
_BURST = 30
_BURST_EVERY = 100
_CYCLE = 20


class Order(msgspec.Struct):
    """What a tenant orders."""

    number: int


def make_app(settings: Settings) -> Redrive:
    """The shop, with its handlers."""
    app = Redrive(settings=settings)

    @app.handler(ORDERS, concurrency=4)
    async def charge(order: Order, delivery: Delivery) -> None:
        await asyncio.sleep(0.05 + 0.03 * (order.number % 5))
        _answer(order.number % _CYCLE, delivery)
        await app.submit(
            EMAILS, order, tenant=delivery.message.tenant, dedupe=f"confirmation-{delivery.message.id}"
        )

    @app.handler(EMAILS, concurrency=4)
    async def confirm(order: Order) -> None:
        await asyncio.sleep(0.04)
        if order.number % 37 == 2:
            raise Permanent("no such mailbox", code="5.1.1", scope="recipient")

    return app


def _answer(story: int, delivery: Delivery) -> None:
    """How the payment gateway answers: most orders are paid."""
    attempt = delivery.progress.attempts
    asked_at = datetime.fromtimestamp(delivery.message.enqueued_at / 1000, UTC)
    match story:
        case 3 if attempt == 1:
            raise Temporary("payment gateway timed out", code="504")
        case 5 if attempt <= 2:
            raise Temporary("payment gateway is overloaded", code="503")
        case 8:
            raise Permanent("card was declined", code="402")
        case 11:
            raise TimeoutError("warehouse is silent")
        case 14 if datetime.now(UTC) < asked_at + timedelta(seconds=3):
            raise Later(asked_at + timedelta(seconds=3), "payment gateway asked us to wait")


async def send_traffic(app: Redrive, messages: int | None) -> None:
    """Order for the tenants, `messages` times or without end."""
    for number in count(1):
        if messages is not None and number > messages:
            return
        if messages is None and number % _BURST_EVERY == 1:
            await _burst(app, number)
        await app.submit(ORDERS, _payload(number), tenant=_TURNS[number % len(_TURNS)])
        await asyncio.sleep(_PACE_S)


async def _burst(app: Redrive, number: int) -> None:
    """A sale at acme: its orders must not hold up the other tenants'."""
    orders = (_payload(1_000 * number + extra) for extra in range(_BURST))
    await app.submit_many(ORDERS, [Submission(order, tenant="acme") for order in orders])


def _payload(number: int) -> object:
    """An order, once in a while one that nobody can read."""
    return {"number": f"No. {number}"} if number % 40 == 17 else Order(number)


def label(message: Message) -> str:
    """What a message is, in words: `order 17`."""
    try:
        number = json.loads(message.body)["number"]
    except (ValueError, TypeError, LookupError):
        number = "that cannot be read"
    return f"{_NOUNS.get(message.queue, message.queue)} {number}"
