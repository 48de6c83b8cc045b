"""What an open store works with, put together and taken apart in order."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from redrive.core.forks import watch
from redrive.stores.sqlite.checkpoint import Checkpointer
from redrive.stores.sqlite.clock import Instant
from redrive.stores.sqlite.forks import Section
from redrive.stores.sqlite.opening import Opened, open_file
from redrive.stores.sqlite.waiting import Waiting
from redrive.stores.sqlite.writer import Writer


class Workings:
    """The writer, the reader, those who wait, and the checkpoint thread of one open file."""

    def __init__(self, opened: Opened, path: Path, clock: Callable[[], Instant]) -> None:
        self._opened = opened
        self.reader = opened.reader
        self.reading = Section(nested=True)
        self.waiting = Waiting(opened.reader, self.reading, lambda: clock().now)
        self.writer = Writer(opened.writer, opened.lock, path, clock, self.waiting.committed)
        self._checkpointer = Checkpointer(path)
        self._checkpointer.watch(opened.writer)
        self.inherited = False
        watch(self)

    @classmethod
    async def of(cls, path: Path, clock: Callable[[], Instant]) -> Workings:
        """Open the file; in a thread, because another process may be migrating it."""
        return cls(await asyncio.to_thread(open_file, path), path, clock)

    def forked(self) -> None:
        """In a child: this is the parent's, not to be used and not to be closed."""
        self.inherited = True

    def abandon(self) -> None:
        """Let go of everything from outside the event loop, which is closed."""
        self.writer.abandon()
        self._checkpointer.stop()
        self._opened.close()

    async def close(self) -> None:
        """Finish what was asked for, then let go of everything."""
        await self.writer.close()
        self.waiting.close()
        await asyncio.to_thread(self._checkpointer.stop)
        await asyncio.to_thread(self._opened.close)
