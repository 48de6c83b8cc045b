"""Celery on Redis: late acknowledgement off as by default, no results."""

from __future__ import annotations

from typing import Any

from celery import Celery  # type: ignore[import-not-found]

from bench.redis.theirs.marks import COUNT, PAYLOAD, URL, handled

app = Celery("bench", broker=URL)
app.conf.update(task_ignore_result=True, worker_prefetch_multiplier=100)


@app.task  # type: ignore[untyped-decorator]
def handle(payload: dict[str, Any]) -> None:
    """The no-op."""
    handled()


def submit() -> None:
    """Let the messages wait."""
    for _ in range(COUNT):
        handle.delay(PAYLOAD)
