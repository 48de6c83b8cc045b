"""Celery on RabbitMQ: late acknowledgement, confirmed publishing, no results."""

from __future__ import annotations

from typing import Any

from celery import Celery  # type: ignore[import-not-found]

from bench.redis.theirs.marks import COUNT, PAYLOAD, URL, handled

app = Celery("bench", broker=URL)
app.conf.update(
    task_ignore_result=True,
    task_acks_late=True,
    worker_prefetch_multiplier=100,
    broker_transport_options={"confirm_publish": True},
)


@app.task  # type: ignore[untyped-decorator]
def handle(payload: dict[str, Any]) -> None:
    """The no-op."""
    handled()


def submit() -> None:
    """Let the messages wait."""
    for _ in range(COUNT):
        handle.delay(PAYLOAD)
