"""One relay's connections: opened as needed up to a bound, reused, retired, never shared half-used.

Envelopes wait in one line and are served in its order; a connection that writes a final dot takes the
next in line along. A connection ends after a number of messages or seconds, and on any oddity. An envelope
that went out on a reused connection and met only a drop or a tired server is sent once more, on a fresh
one: nothing of it can have been accepted. When no connection can be opened and none works, everyone in
line gets the error. Never retries otherwise: that is the queue's business.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import deque

from redrive.core.settings import SmtpSettings
from redrive.mail.smtp.connection import Connection
from redrive.mail.smtp.envelope import Envelope
from redrive.mail.smtp.errors import Dropped, SmtpError, SmtpPhase
from redrive.mail.smtp.opening import open_connection
from redrive.mail.smtp.relay import Relay, Tls
from redrive.mail.smtp.transaction import RecipientReply, Sending

_TIRED = frozenset({421, 500, 501, 502, 503, 504})


class Pool:
    """Sends envelopes to one relay."""

    def __init__(self, relay: Relay, settings: SmtpSettings | None = None) -> None:
        self.relay = relay
        self._settings = settings or SmtpSettings()
        self._context: ssl.SSLContext | None = None
        self._waiting: deque[Sending] = deque()
        self._waiting_fresh: deque[Sending] = deque()
        self._idle: list[Connection] = []
        self._connections: set[Connection] = set()
        self._opening: set[asyncio.Task[None]] = set()
        self._paused_until = 0.0
        self._active = 0
        self._closing = False
        self._drained = asyncio.Event()

    @property
    def connections(self) -> int:
        """Connections that are open or being opened."""
        return len(self._connections) + len(self._opening)

    @property
    def idle(self) -> int:
        """Open connections with nothing to do."""
        return len(self._idle)

    async def send(self, envelope: Envelope) -> tuple[RecipientReply, ...]:
        """What the server decided for each recipient; SmtpError where it decided nothing."""
        if self._closing:
            raise _closed()
        self._active += 1
        try:
            return await self._send(envelope)
        finally:
            self._active -= 1
            self._notice_drained()

    async def close(self, drain_s: float = 30.0) -> None:
        """Take no more, let what was taken finish within `drain_s`, then end every connection."""
        self._closing = True
        self._notice_drained()
        try:
            async with asyncio.timeout(drain_s):
                await self._drained.wait()
        except TimeoutError:
            self._fail(self._waiting_fresh, self._waiting, error=_closed())
        for task in self._opening:
            task.cancel()
        await asyncio.gather(*self._opening, return_exceptions=True)
        await asyncio.gather(*(connection.close() for connection in list(self._connections)))

    def next_sending(self, connection: Connection) -> Sending | None:
        return None if self._is_worn(connection) else self._next(self._waiting)

    def released(self, connection: Connection) -> None:
        if connection not in self._connections:
            return
        if self._is_worn(connection) or (self._waiting_fresh and not self._has_room()):
            connection.quit()
        else:
            self._idle.append(connection)
            self._pump()

    def closed(self, connection: Connection) -> None:
        self._connections.discard(connection)
        if connection in self._idle:
            self._idle.remove(connection)
        self._pump()

    async def _send(self, envelope: Envelope) -> tuple[RecipientReply, ...]:
        sending = Sending(envelope)
        try:
            replies = await self._carry(sending, self._waiting)
        except SmtpError:
            if not (sending.reused and sending.unanswered):
                raise
        else:
            if not (sending.reused and all(reply.reply.code in _TIRED for reply in replies)):
                return replies
        return await self._carry(Sending(envelope), self._waiting_fresh)

    async def _carry(self, sending: Sending, line: deque[Sending]) -> tuple[RecipientReply, ...]:
        line.append(sending)
        self._pump()
        try:
            return await sending.wait()
        finally:
            if sending.connection is None and sending in line:
                line.remove(sending)

    def _pump(self) -> None:
        """Give whoever waits a connection, or open one for them.

        Those who wait for a fresh one get only what is opened now; when all connections are in use and one is
        idle, it ends to make room for theirs.
        """
        while self._waiting and (connection := self._take_idle()) is not None:
            sending = self._next(self._waiting)
            if sending is None or not connection.start(sending):
                self._idle.append(connection)
        wanted = len(self._waiting) + len(self._waiting_fresh) - len(self._opening)
        while wanted > 0 and self._has_room() and not self._is_pausing():
            wanted -= 1
            self._open()
        if self._waiting_fresh and not self._opening and self._idle and not self._has_room():
            self._idle[0].quit()

    def _take_idle(self) -> Connection | None:
        """The one used last, so that the others may grow idle and end."""
        while self._idle:
            connection = self._idle.pop()
            if connection.usable and not self._is_worn(connection):
                return connection
            connection.quit()
        return None

    def _next(self, line: deque[Sending]) -> Sending | None:
        while line:
            sending = line.popleft()
            if not sending.future.done():
                return sending
        return None

    def _open(self) -> None:
        task = asyncio.create_task(self._serve_new(), name=f"redrive-smtp-{self.relay.host}")
        self._opening.add(task)
        task.add_done_callback(self._opened)

    def _opened(self, task: asyncio.Task[None]) -> None:
        self._opening.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._open_failed(error)
        self._pump()

    async def _serve_new(self) -> None:
        if self._context is None and self.relay.tls is not Tls.NONE:
            self._context = self.relay.tls_context()
        connection = await open_connection(
            self.relay,
            owner=self,
            settings=self._settings,
            context=self._context,
        )
        self._connections.add(connection)
        sending = self._next(self._waiting_fresh)
        if sending is None or not connection.start(sending):
            self._idle.append(connection)

    def _open_failed(self, error: BaseException) -> None:
        """While a connection works, the line goes on there; else there is no hope for anyone in it."""
        loop = asyncio.get_running_loop()
        self._paused_until = loop.time() + self._settings.pause_s
        loop.call_at(self._paused_until, self._pump)
        self._fail(self._waiting_fresh, error=error)
        if not self.connections:
            self._fail(self._waiting, error=error)

    def _fail(self, *lines: deque[Sending], error: BaseException) -> None:
        for line in lines:
            while (sending := self._next(line)) is not None:
                sending.fail(error)

    def _notice_drained(self) -> None:
        if self._closing and not self._active:
            self._drained.set()

    def _is_worn(self, connection: Connection) -> bool:
        """Whether it has served its time; each serves once at least, so that the line always moves."""
        old = asyncio.get_running_loop().time() - connection.opened_at > self._settings.age_s
        return connection.messages >= self._settings.messages or (old and connection.messages > 0)

    def _has_room(self) -> bool:
        return self.connections < self._settings.connections

    def _is_pausing(self) -> bool:
        """After a failed connect, while others may still succeed or work."""
        return self.connections > 0 and asyncio.get_running_loop().time() < self._paused_until


def _closed() -> Dropped:
    return Dropped("the pool is closed: nothing more is sent", phase=SmtpPhase.CONNECT)
