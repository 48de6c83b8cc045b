"""RQ with its SimpleWorker, which forks no process a job; results leave at once."""

from __future__ import annotations

from typing import Any

from redis import Redis
from rq import Queue  # type: ignore[import-not-found]

from bench.redis.theirs.marks import COUNT, PAYLOAD, URL, handled

queue = Queue("bench", connection=Redis.from_url(URL))


def handle(payload: dict[str, Any]) -> None:
    """The no-op."""
    handled()


def submit() -> None:
    """Let the messages wait."""
    for _ in range(COUNT):
        queue.enqueue(handle, PAYLOAD, result_ttl=0)
