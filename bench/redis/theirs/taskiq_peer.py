"""taskiq on Redis: the list broker of taskiq-redis, its fastest, without a result backend.

The list broker forgets a message as soon as it is popped; the stream broker acknowledges and is slower.
"""

from __future__ import annotations

import asyncio
from typing import Any

from taskiq_redis import ListQueueBroker  # type: ignore[import-not-found]

from bench.redis.theirs.marks import COUNT, PAYLOAD, URL, handled

broker = ListQueueBroker(url=URL)


@broker.task  # type: ignore[untyped-decorator]
async def handle(payload: dict[str, Any]) -> None:
    """The no-op."""
    handled()


async def _submit() -> None:
    await broker.startup()
    for _ in range(COUNT):
        await handle.kiq(PAYLOAD)
    await broker.shutdown()


def submit() -> None:
    """Let the messages wait."""
    asyncio.run(_submit())
