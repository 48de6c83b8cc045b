"""huey on Redis, without a result store: handlers return nothing."""

from __future__ import annotations

from typing import Any

from huey import RedisHuey  # type: ignore[import-not-found]

from bench.redis.theirs.marks import COUNT, PAYLOAD, URL, handled

queue = RedisHuey("bench", url=URL, results=False)


@queue.task()  # type: ignore[untyped-decorator]
def handle(payload: dict[str, Any]) -> None:
    """The no-op."""
    handled()


def submit() -> None:
    """Let the messages wait."""
    for _ in range(COUNT):
        handle(PAYLOAD)
