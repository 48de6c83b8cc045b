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


if __name__ == "__main__":
    for _ in range(COUNT):
        # The name, not the function: that one would be __main__'s here.
        queue.enqueue("bench.redis.theirs.rq_peer.handle", PAYLOAD, result_ttl=0)
