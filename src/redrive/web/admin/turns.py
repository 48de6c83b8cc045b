"""Taking turns: one key has few admin requests under way at once, the others of it wait.

A search may take half a minute of one of this process's few threads. Whoever sends many at once waits for his
own, not others for his; and whoever has many waiting is told to come back later.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from redrive.web.access import rate_limited

AT_ONCE: Final = 2
WAITING: Final = 20


@dataclass(slots=True)
class _Key:
    """The requests of one key."""

    free: asyncio.Semaphore = field(default_factory=partial(asyncio.Semaphore, AT_ONCE))
    present: int = 0


class Turns:
    """The turns of all keys; only those that have requests are remembered."""

    def __init__(self) -> None:
        self._keys: dict[str, _Key] = {}

    @asynccontextmanager
    async def turn(self, key_id: str) -> AsyncIterator[None]:
        """Wait for a turn and have it while inside; Refusal where too many of the key wait already."""
        key = self._keys.setdefault(key_id, _Key())
        if key.present >= AT_ONCE + WAITING:
            raise rate_limited("too many requests of this key wait for others of it", 1)
        key.present += 1
        try:
            async with key.free:
                yield
        finally:
            key.present -= 1
            if key.present == 0:
                del self._keys[key_id]
