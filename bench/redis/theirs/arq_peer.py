"""arq, with results kept for no time and 100 jobs at once."""

from __future__ import annotations

import asyncio
import logging
from typing import Any, ClassVar

from arq import create_pool, func  # type: ignore[import-not-found]
from arq.connections import RedisSettings  # type: ignore[import-not-found]

from bench.redis.theirs.marks import COUNT, PAYLOAD, URL, handled


async def handle(context: dict[str, Any], payload: dict[str, Any]) -> None:
    """The no-op."""
    handled()


async def silence(context: dict[str, Any]) -> None:
    """Its command logs two lines a job, which no other peer does here."""
    logging.getLogger("arq").setLevel(logging.WARNING)


class WorkerSettings:
    """What arq's command reads."""

    functions: ClassVar = [func(handle, name="handle", keep_result=0)]
    redis_settings = RedisSettings.from_dsn(URL)
    on_startup = silence
    max_jobs = 100
    poll_delay = 0.01


async def _submit() -> None:
    pool = await create_pool(RedisSettings.from_dsn(URL))
    for _ in range(COUNT):
        await pool.enqueue_job("handle", PAYLOAD)


def submit() -> None:
    """Let the messages wait."""
    asyncio.run(_submit())
