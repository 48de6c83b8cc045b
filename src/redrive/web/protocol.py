"""HTTP/1.1 by httptools, with a bound on the head of a request, in bytes and in time, and on who connects.

The parser itself would collect a header without end from anyone who can connect. Bodies are bounded where
they are read, after the key was checked, and have to be there at a deadline, whether they are read or not.
Behind trusted proxies nobody else is let in: another peer could claim any address.
An answer is sent by one system call instead of two, which is a
tenth of what a small request costs.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.middleware.proxy_headers import _TrustedHosts
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEAD_BYTES = 64 * 1024
HEAD_S = 20.0
BODY_S = 60.0
_STRANGER = (
    b"HTTP/1.1 403 Forbidden\r\nContent-Type: text/plain\r\nConnection: close\r\nContent-Length: 35\r\n\r\n"
    b"only trusted proxies connect here.\n"
)


class JoinedWrites:
    """A transport that sends the head of an answer together with what follows in the same step."""

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._head = b""

    def write(self, data: bytes) -> None:
        if self._head:
            data, self._head = self._head + data, b""
        elif data.startswith(b"HTTP/1.1 "):
            self._head = data
            self._loop.call_soon(self._flush)
            return
        self._transport.write(data)

    def close(self) -> None:
        self._flush()
        self._transport.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def _flush(self) -> None:
        if self._head:
            head, self._head = self._head, b""
            self._transport.write(head)


class BoundedProtocol(HttpToolsProtocol):
    """One connection."""

    def __init__(self, *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self._head_bytes = 0
        self._in_head = True
        self._begun_here = False
        self._late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(JoinedWrites(transport, self.loop))  # type: ignore[arg-type]
        if self._is_stranger(transport):
            transport.write(_STRANGER)
            transport.close()
            return
        self._expect(HEAD_S)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._begun_here = False
        super().data_received(data)
        if not self._in_head:
            return
        if not self._begun_here:  # before a head that begins here may stand a long body
            self._head_bytes += len(data)
        if self._head_bytes > HEAD_BYTES and not self.transport.is_closing():
            self.send_400_response("The head of the request is too long.")
        elif self._late is None:
            self._expect(HEAD_S)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._in_head = self._begun_here = True
        self._head_bytes = 0

    def on_headers_complete(self) -> None:
        self._in_head = False
        self._stop_waiting()
        self._expect(BODY_S)
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._stop_waiting()
        super().on_message_complete()

    def _is_stranger(self, transport: asyncio.Transport) -> bool:
        if not self.config.proxy_headers:
            return False
        peer = transport.get_extra_info("peername")
        return peer is None or peer[0] not in _TrustedHosts(self.config.forwarded_allow_ips)

    def _expect(self, patience_s: float) -> None:
        """Close unless what comes next is there in time."""
        self._late = self.loop.call_later(patience_s, self.transport.close)

    def _stop_waiting(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None
