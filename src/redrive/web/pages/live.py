"""Live updates: one stream a page that says when to read it again. One reader a topic, however many look.

What is watched is small: the queues' counts, or one operation. It is read every second or two while somebody
looks. A change is told at once, and now and then a page is read again without one: what it shows may be
counted more slowly. A stream says nothing else, and ends after some minutes; the browser opens it again.
A session has some streams open at once and no more: a browser opens about six, and each costs a connection.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Final

import msgspec
from starlette.responses import Response, StreamingResponse

from redrive.core.errors import RedriveError
from redrive.web.admin.route import READ
from redrive.web.pages.visit import PageRoute, Visit
from redrive.web.problems import RATE_LIMITED, Refusal

QUEUES_S: Final = 1.0
OPERATION_S: Final = 2.0
STREAMS: Final = 12
"""How many a session may have open at once."""
_LASTS_S: Final = 300.0
_PAUSE_S: Final = 5
_QUIET_S: Final = 15.0
_AGAIN_MS: Final = 2_000
_FULL_S: Final = 30
_HEADERS: Final = {"X-Accel-Buffering": "no"}

Read = Callable[[], Awaitable[Any]]


def pause_s(queues: int) -> int:
    """How long a page waits before it is read again, where that costs up to two reads a queue, and a few."""
    return _PAUSE_S + queues // 2


class Topic:
    """Something that is watched: read for all who wait, who are woken when it is another than before."""

    def __init__(self, read: Read, every_s: float) -> None:
        self._read = read
        self._every_s = every_s
        self._next = asyncio.Event()
        self._seen = b""
        self._task: asyncio.Task[None] | None = None
        self._watchers = 0
        self.version = 0

    @property
    def watched(self) -> bool:
        return self._watchers > 0

    async def wait(self, version: int, timeout_s: float) -> int:
        """The version after this one; the same when nothing changed in time."""
        if self.version == version:
            try:
                async with asyncio.timeout(timeout_s):
                    await self._next.wait()
            except TimeoutError:
                return version
        return self.version

    def begin(self) -> None:
        self._watchers += 1
        if self._task is None:
            self._task = asyncio.create_task(self._watch())

    def end(self) -> None:
        self._watchers -= 1
        if not self.watched and self._task is not None:
            self._task.cancel()
            self._task = None

    def wake(self) -> None:
        """Let everyone look again."""
        self.version += 1
        woken, self._next = self._next, asyncio.Event()
        woken.set()

    async def _watch(self) -> None:
        while True:
            try:
                seen = msgspec.json.encode(await self._read())
            except RedriveError:
                seen = b""
            if seen != self._seen:
                self._seen = seen
                self.wake()
            await asyncio.sleep(self._every_s)


class LivePages:
    """The streams."""

    def __init__(self) -> None:
        self._topics: dict[str, Topic] = {}
        self._open: Counter[str] = Counter()
        self._closed = False

    def routes(self) -> list[PageRoute]:
        return [
            PageRoute(path="/live/queues", answer=self.queues, allowed=READ),
            PageRoute(path="/live/operations/{id}", answer=self.operation, allowed=READ),
        ]

    def close(self) -> None:
        """End every stream: the server stops, and does not wait for those who look."""
        self._closed = True
        for topic in self._topics.values():
            topic.wake()

    async def queues(self, visit: Visit) -> Response:
        """The counts of all queues, or of the tenant's part of them."""
        name = f"queues {visit.credential.tenant or ''}"
        return self._stream(visit, name, visit.acting.queues.parts, QUEUES_S)

    async def operation(self, visit: Visit) -> Response:
        """How far an operation is."""
        operations, name = visit.acting.operations, visit.named("id")
        await operations.show(name)

        async def read() -> Any:
            return operations.document(await operations.show(name))

        return self._stream(visit, f"operation {name}", read, OPERATION_S)

    def _stream(self, visit: Visit, name: str, read: Read, every_s: float) -> Response:
        session = visit.session.id if visit.session is not None else ""
        if self._open[session] >= STREAMS:
            again = {"Retry-After": str(_FULL_S)}
            raise Refusal(RATE_LIMITED, f"this session has {STREAMS} live pages open", headers=again)
        events = self._events(session, name, read, every_s)
        return StreamingResponse(events, media_type="text/event-stream", headers=_HEADERS)

    async def _events(self, session: str, name: str, read: Read, every_s: float) -> AsyncIterator[str]:
        """What one page is told. Counted from here: who leaves before it begins has cost nothing."""
        if self._open[session] >= STREAMS:
            return
        topic = self._topic(name, read, every_s)
        self._open[session] += 1
        topic.begin()
        try:
            ends_s = time.monotonic() + _LASTS_S
            version = 0  # what changed between the page and its stream is told first
            yield f"retry: {_AGAIN_MS}\n\n"
            while not self._closed and time.monotonic() < ends_s:
                version = await topic.wait(version, _QUIET_S)
                yield "event: change\ndata:\n\n"
        finally:
            topic.end()
            self._open[session] -= 1
            self._open += Counter()  # forgets those who have none left

    def _topic(self, name: str, read: Read, every_s: float) -> Topic:
        self._topics = {name: topic for name, topic in self._topics.items() if topic.watched}
        return self._topics.setdefault(name, Topic(read, every_s))
