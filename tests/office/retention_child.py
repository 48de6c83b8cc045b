"""A process that lets letters leave and kills itself at a named point: URL FOLDER SKEW_MS POINT."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from typing import Any

from redrive.config import Settings
from redrive.core.settings import RetentionSettings
from redrive.office.retention.duty import Retention
from redrive.office.retention.notice import RETENTION_RECORDS
from redrive.wiring import make_store

POINTS = (
    "before the archive has its name",
    "before the first removal",
    "between two removals",
    "after the last",
)


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def die_at_rename(event: str, _: object) -> None:
    if event == "os.rename":
        die()


def dying(verb: Callable[..., Awaitable[Any]], first: str, before: int) -> Callable[..., Awaitable[Any]]:
    """The same, but its call number `before` with this first argument is the end of the process."""
    calls = 0

    async def doing(*arguments: Any, **named: Any) -> Any:
        nonlocal calls
        calls += arguments[0] == first
        if calls == before:
            die()
        return await verb(*arguments, **named)

    return doing


async def main(url: str, folder: str, skew_ms: str, point: str) -> None:
    store: Any = make_store(Settings(store=url))
    store.skew_ms = int(skew_ms)
    await store.open()
    if point == POINTS[0]:
        sys.addaudithook(die_at_rename)
    elif point in POINTS[1:3]:
        store.remove = dying(store.remove, "orders", POINTS.index(point))
    else:
        store.put_record = dying(store.put_record, RETENTION_RECORDS, 1)
    await Retention(store, RetentionSettings(folder=folder)).step()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
