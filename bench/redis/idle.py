"""How many commands a worker with one queue and nothing to do sends to its server.

Read from MONITOR; what a script calls on the server is not sent by anybody.
"""

from __future__ import annotations

import asyncio
from typing import Any
from urllib.parse import urlsplit

from bench.load import Conditions, Figures
from bench.subject import QUEUE, make_app, working

_SETTLE_IN_S = 3.0
_LEAST_S = 20.0


def measure(conditions: Conditions) -> Figures:
    """Commands a second, over several of the worker's rounds."""
    assert conditions.server is not None
    seconds = max(_LEAST_S, conditions.seconds)
    sent = asyncio.run(_measure(conditions.store("idle"), urlsplit(conditions.server).port, seconds))
    return {"idle commands": sent / seconds}


async def _measure(store: str, port: int | None, seconds: float) -> int:
    async def handle(payload: dict[str, Any]) -> None:
        return None

    app = make_app(store)
    app.handler(QUEUE)(handle)
    async with app, working(app):
        await asyncio.sleep(_SETTLE_IN_S)
        return await _count_commands(port, seconds)


async def _count_commands(port: int | None, seconds: float) -> int:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"MONITOR\r\n")
    await reader.readline()
    sent = 0
    try:
        async with asyncio.timeout(seconds):
            while line := await reader.readline():
                sent += b" lua]" not in line
    except TimeoutError:
        return sent
    finally:
        writer.close()
    return sent
