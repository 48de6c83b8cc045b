"""One client's socket: moves bytes between it and a session, and keeps the time.

A client that reads no replies is read no further, nor one that sends on while its session waits. While a
session hangs, what comes is thrown away, so that a client that gives up is noticed.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol, cast

from redrive.mailbox.session import ServerSession
from redrive.mailbox.wire import Next


class Timer(Protocol):
    """A call to come."""

    def cancel(self) -> None:
        """It does not come."""
        ...


class Timing(Protocol):
    """Where time comes from: the event loop, or a test's own."""

    def time(self) -> float:
        """Seconds that only go forward."""
        ...

    def call_later(self, delay: float, callback: Callable[[], None], /) -> Timer:
        """Call back after a delay in seconds."""
        ...


class ServerConnection(asyncio.BufferedProtocol):
    """A connection until it is closed; `gone` is called once, at its end.

    `buffer` is read into. All connections of one event loop may share it: what is in it is taken out
    before the loop reads again.
    """

    def __init__(
        self,
        session: ServerSession,
        timing: Timing,
        idle_s: float,
        tls: ssl.SSLContext | None,
        buffer: memoryview,
        gone: Callable[[ServerConnection], None],
    ) -> None:
        self._session = session
        self._timing = timing
        self._idle_s = idle_s
        self._tls = tls
        self._buffer = buffer
        self._gone: Callable[[ServerConnection], None] | None = gone
        self._transport: asyncio.Transport | None = None
        self._handshake: asyncio.Task[None] | None = None
        self._delay: Timer | None = None
        self._idle: Timer | None = None
        self._heard_at = timing.time()

    def abort(self) -> None:
        """Close at once."""
        if self._handshake is not None:
            self._handshake.cancel()
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._idle = self._timing.call_later(self._idle_s, self._check_idle)
        self._act()

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        session = self._session
        if session.next is Next.HANG or session.next is Next.CLOSE:
            return
        self._heard_at = self._timing.time()
        if session.next is Next.WAIT and self._transport is not None:
            self._transport.pause_reading()
        session.receive(self._buffer[:nbytes])
        self._act()

    def pause_writing(self) -> None:
        if self._transport is not None:
            self._transport.pause_reading()

    def resume_writing(self) -> None:
        if self._transport is not None and self._session.next is not Next.START_TLS:
            self._transport.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        self._session.lost()
        for timer in (self._delay, self._idle):
            if timer is not None:
                timer.cancel()
        gone, self._gone = self._gone, None
        if gone is not None:
            gone(self)

    def _act(self) -> None:
        transport, session = self._transport, self._session
        if transport is None or transport.is_closing():
            return
        out = session.take_output()
        if out:
            transport.write(out)
        match session.next:
            case Next.CLOSE:
                transport.close()
            case Next.WAIT if self._delay is None:
                self._delay = self._timing.call_later(session.wait_s, self._waited)
            case Next.START_TLS if self._handshake is None and self._tls is not None:
                transport.pause_reading()
                self._handshake = asyncio.ensure_future(self._secure(transport, self._tls))

    def _waited(self) -> None:
        self._delay = None
        if self._transport is not None:
            self._transport.resume_reading()
        self._session.waited()
        self._act()

    async def _secure(self, transport: asyncio.Transport, tls: ssl.SSLContext) -> None:
        """The loop tells nobody of a connection that is lost during the handshake: we do."""
        secured = None
        try:
            with suppress(OSError):
                secured = await asyncio.get_running_loop().start_tls(transport, self, tls, server_side=True)
        finally:
            if secured is None:
                transport.abort()
                self.connection_lost(None)
        if secured is not None:
            self._transport = secured
            self._session.secured()

    def _check_idle(self) -> None:
        left_s = self._heard_at + self._idle_s - self._timing.time()
        if left_s > 0:
            self._idle = self._timing.call_later(left_s, self._check_idle)
            return
        self._session.time_out()
        self._act()
