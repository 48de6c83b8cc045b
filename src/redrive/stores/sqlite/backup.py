"""Copying a live store into another file: SQLite's online backup, in a thread, some pages at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import apsw

from redrive.core.errors import StoreError
from redrive.core.private import create_file
from redrive.stores.sqlite.connection import open_reader
from redrive.stores.sqlite.forks import Section

Progress = Callable[[int, int], None]

_PAGES = 1_000


async def copy_file(source: Path, target: Path, progress: Progress | None) -> None:
    """Copy the store; `progress` hears, in this thread, of pages done and pages in all."""
    loop = asyncio.get_running_loop()

    def tell(done: int, total: int) -> None:
        if progress is not None:
            loop.call_soon_threadsafe(progress, done, total)

    await asyncio.to_thread(_copy_aside, source, target, tell)


def _copy_aside(source: Path, target: Path, tell: Progress) -> None:
    with Section():
        _copy(source, target, tell)


def _copy(source: Path, target: Path, tell: Progress) -> None:
    if target.exists():
        raise StoreError(f"{target} exists already: a backup never overwrites, name a new file")
    if not target.parent.is_dir():
        raise StoreError(f"{target}: the folder {target.parent} does not exist: create it first")
    # Written beside its name and renamed at the end, so that a backup is whole or not there.
    unfinished = target.with_name(target.name + "-unfinished")
    unfinished.unlink(missing_ok=True)
    origin = open_reader(source)
    try:
        _copy_pages(origin, unfinished, tell)
        unfinished.rename(target)
    finally:
        origin.close()
        unfinished.unlink(missing_ok=True)


def _copy_pages(origin: apsw.Connection, target: Path, tell: Progress) -> None:
    create_file(target).close()
    copy = apsw.Connection(str(target))
    try:
        # A snapshot keeps writers of other connections from starting the copy over.
        origin.execute("begin; select count(*) from queues").fetchall()
        with copy.backup("main", origin, "main") as backup:
            while not backup.done:
                backup.step(_PAGES)
                tell(backup.page_count - backup.remaining, backup.page_count)
        copy.pragma("journal_mode", "delete")
    finally:
        copy.close()
