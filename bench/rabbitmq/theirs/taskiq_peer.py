"""taskiq on RabbitMQ by taskiq-aio-pika, its defaults, without a result backend."""

from __future__ import annotations

import asyncio
from typing import Any

from taskiq_aio_pika import AioPikaBroker  # type: ignore[import-not-found]

from bench.redis.theirs.marks import COUNT, PAYLOAD, URL, handled

broker = AioPikaBroker(URL, qos=500)


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
