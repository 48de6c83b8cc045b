"""Dramatiq actors that fail; run by record.py in an environment that has Dramatiq, never by the tests."""

from __future__ import annotations

import os
import sys

import dramatiq
from dramatiq.brokers.rabbitmq import RabbitmqBroker

dramatiq.set_broker(RabbitmqBroker(url=os.environ["BROKER_URL"]))


@dramatiq.actor(queue_name="shop", max_retries=1, min_backoff=50, max_backoff=50)
def charge(order: int, *, card: str) -> None:
    raise ValueError(f"card {card} of order {order} was declined")


@dramatiq.actor(queue_name="shop", max_retries=0, time_limit=60_000)
def ship(order: dict[str, int]) -> None:
    raise RuntimeError("the carrier is closed")


def send() -> None:
    charge.send(7, card="visa")
    ship.send({"order": 8})


if __name__ == "__main__":
    sys.exit(send())
