"""SAQ with 100 jobs at once; finished jobs leave at once."""

from __future__ import annotations

import asyncio
from typing import Any

from saq import Queue  # type: ignore[import-not-found]

from bench.redis.theirs.marks import COUNT, PAYLOAD, URL, handled

queue = Queue.from_url(URL)


async def handle(context: dict[str, Any], *, payload: dict[str, Any]) -> None:
    """The no-op."""
    handled()


settings = {"queue": queue, "functions": [handle], "concurrency": 100}


async def _submit() -> None:
    await queue.connect()
    for _ in range(COUNT):
        await queue.enqueue("handle", payload=PAYLOAD, ttl=-1)
    await queue.disconnect()


def submit() -> None:
    """Let the messages wait."""
    asyncio.run(_submit())
