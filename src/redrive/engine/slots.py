"""What a worker process may hold: its slots, and the quiet that a suspect needs.

`held` counts messages claimed and not yet settled, claims under way included. A suspect runs only
while nothing else is held, so that it takes no neighbours with it when it kills the process.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager


class Slots:
    """Shared by the stations of one worker."""

    def __init__(self, slots: int) -> None:
        self.count = self._free = slots
        self._held = 0
        self._quiet = asyncio.Event()
        self._quiet.set()
        self._open = asyncio.Event()
        self._open.set()
        self._alone = asyncio.Lock()
        self._waiting: deque[Callable[[], None]] = deque()
        self._told: list[Callable[[], None]] = []

    @property
    def busy(self) -> int:
        """Slots that something runs in."""
        return self.count - self._free

    @property
    def held(self) -> int:
        return self._held

    def on_free(self, start: Callable[[], None]) -> None:
        """Call `start` whenever a slot becomes free."""
        self._waiting.append(start)

    def on_settled(self, tell: Callable[[], None]) -> None:
        """Call `tell` whenever messages were settled."""
        self._told.append(tell)

    def take(self) -> bool:
        """A slot to run one attempt in, if one is free."""
        if self._free == 0:
            return False
        self._free -= 1
        return True

    def give(self) -> None:
        """The slot is free again; who may have it first is another one each time."""
        full = self._free == 0
        self._free += 1
        if full:
            self._waiting.rotate(-1)
            for start in list(self._waiting):
                start()

    def hold(self, count: int) -> None:
        """Messages were claimed."""
        self._held += count
        if self._held:
            self._quiet.clear()

    def settled(self, count: int) -> None:
        """Messages were settled, or their lease is lost."""
        self._held -= count
        if self._held == 0:
            self._quiet.set()
        for tell in self._told:
            tell()

    @contextmanager
    def claiming(self) -> Iterator[None]:
        """A claim under way counts as held: nobody knows yet what it brings."""
        self.hold(1)
        try:
            yield
        finally:
            self.settled(1)

    @property
    def is_open(self) -> bool:
        """Whether nobody asks for the process, or has it, alone."""
        return self._open.is_set()

    async def opened(self) -> None:
        """Wait while a suspect has the process to itself."""
        await self._open.wait()

    async def quiet(self) -> None:
        """Wait until nothing is held."""
        await self._quiet.wait()

    @asynccontextmanager
    async def alone(self, patience_s: float) -> AsyncIterator[bool]:
        """The process to oneself: True once nothing else is held, False when that took too long."""
        async with self._alone:
            self._open.clear()
            try:
                try:
                    async with asyncio.timeout(patience_s):
                        await self._quiet.wait()
                except TimeoutError:
                    yield False
                else:
                    yield True
            finally:
                self._open.set()
