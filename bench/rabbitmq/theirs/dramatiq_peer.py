"""dramatiq on RabbitMQ, its defaults, with confirmed publishing."""

from __future__ import annotations

from typing import Any

import dramatiq  # type: ignore[import-not-found]
from dramatiq.brokers.rabbitmq import RabbitmqBroker  # type: ignore[import-not-found]

from bench.redis.theirs.marks import COUNT, PAYLOAD, URL, handled

dramatiq.set_broker(RabbitmqBroker(url=URL, confirm_delivery=True))


@dramatiq.actor  # type: ignore[untyped-decorator]
def handle(payload: dict[str, Any]) -> None:
    """The no-op."""
    handled()


def submit() -> None:
    """Let the messages wait."""
    for _ in range(COUNT):
        handle.send(PAYLOAD)
