"""A Celery app whose tasks fail; run by record.py in an environment that has Celery, never by the tests."""

from __future__ import annotations

import os
import sys

from celery import Celery
from celery.exceptions import Reject
from kombu import Exchange, Queue

DEAD = Exchange("celery.dead", type="direct")
ARGUMENTS = {"x-dead-letter-exchange": "celery.dead", "x-dead-letter-routing-key": "shop"}

app = Celery("celery_shop", broker=os.environ["BROKER_URL"])
app.conf.update(
    task_queues=[
        Queue("shop", Exchange("shop"), routing_key="shop", queue_arguments=ARGUMENTS),
        Queue("shop.slow", Exchange("shop.slow"), routing_key="shop.slow", queue_arguments=ARGUMENTS),
        Queue("shop.dead", DEAD, routing_key="shop"),
    ],
    task_default_queue="shop",
    task_default_exchange="shop",
    task_default_routing_key="shop",
    task_acks_late=True,
    task_acks_on_failure_or_timeout=False,
    task_ignore_result=True,
    accept_content=["json", "pickle"],
    broker_connection_retry_on_startup=True,
)


@app.task(name="shop.charge")
def charge(order: int, *, card: str) -> None:
    raise ValueError(f"card {card} of order {order} was declined")


@app.task(name="shop.refund", serializer="pickle")
def refund(order: object) -> None:
    raise Reject("no such order", requeue=False)


@app.task(name="shop.ship", bind=True, max_retries=1, default_retry_delay=0)
def ship(self: object, order: int) -> None:
    raise self.retry(exc=RuntimeError("the carrier is closed"))  # type: ignore[attr-defined]


def send() -> None:
    charge.apply_async((7,), {"card": "visa"})
    refund.apply_async(({"order": 8},), serializer="pickle")
    ship.apply_async((9,))
    charge.apply_async((10,), {"card": "master"}, queue="shop.slow", expiration=0.1)


if __name__ == "__main__":
    sys.exit(send())
