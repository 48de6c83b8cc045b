"""The server: uvicorn in our own event loop, on a socket of our own.

Signals, reloads and logs stay with the process. Binds to this machine alone by default.
Known weakness: the number of connections is not bounded here; a proxy in front does that.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from redrive.app import Redrive
from redrive.core.errors import CannotListen, ConfigurationError
from redrive.machine.addresses import why_refused, write_address
from redrive.mail.desk import Desk
from redrive.web.access import Rates
from redrive.web.api import make_api
from redrive.web.listen import ServerSettings, check_listen, trusted_networks

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
        trusted = trusted_networks(tuple(self.config.forwarded_allow_ips or ()))
        return peer is None or not any(ipaddress.ip_address(peer[0]) in network for network in trusted)

    def _expect(self, patience_s: float) -> None:
        """Close unless what comes next is there in time."""
        self._late = self.loop.call_later(patience_s, self.transport.close)

    def _stop_waiting(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None


_BACKLOG = 1_024
_DRAIN_S = 10
_IDLE_S = 75


@dataclass(frozen=True, slots=True)
class Running:
    """A server that listens."""

    url: str


class _Server(uvicorn.Server):
    """uvicorn without hands on the process's signals, that says when it listens."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.listening = asyncio.Event()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.listening.set()


@asynccontextmanager
async def serve(
    app: Redrive,
    listen: str,
    *,
    mail: Desk | None = None,
    ready: Callable[[], bool] | None = None,
    settings: ServerSettings = ServerSettings(),  # noqa: B008 - immutable
    rates: Rates = Rates(),  # noqa: B008 - immutable
) -> AsyncIterator[Running]:
    """Serve an app at `host:port` (port 0: any free one) while inside, with the app open.

    On leaving, no new requests are taken and those under way have 10 s to end. Raises CannotListen, or
    ConfigurationError when the address is not one or needs `allow_remote`.
    """
    host, port = check_listen(listen, settings)
    async with app:
        proxied = bool(settings.trusted_proxies)
        api = make_api(app, mail, ready=ready or (lambda: app.ready), rates=rates, proxied=proxied)
        with _bound(host, port) as bound:
            server = _Server(_config(api, settings))
            serving = asyncio.create_task(server.serve(sockets=[bound]))
            try:
                await _listening(server, serving)
                scheme = "http" if settings.certificate is None else "https"
                yield Running(f"{scheme}://{write_address(host, bound.getsockname()[1])}")
            finally:
                api.close()
                server.should_exit = True
                await serving


@contextmanager
def _bound(host: str, port: int) -> Iterator[socket.socket]:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio turns Nagle's algorithm off only where the protocol is said: without, an answer takes 40 ms.
    with socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP) as bound:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            bound.bind((host, port))
            bound.listen(_BACKLOG)
        except (OSError, UnicodeError) as error:
            why = why_refused(error) if isinstance(error, OSError) else "not a host name"
            raise CannotListen(
                f"the HTTP API cannot listen on {write_address(host, port)}: {why}; stop what listens there, "
                "or choose another address with --listen or REDRIVE_LISTEN"
            ) from error
        yield bound


def _config(api: Callable[..., object], settings: ServerSettings) -> uvicorn.Config:
    config = uvicorn.Config(
        api,
        http=BoundedProtocol,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_keep_alive=_IDLE_S,
        timeout_graceful_shutdown=_DRAIN_S,
        proxy_headers=bool(settings.trusted_proxies),
        forwarded_allow_ips=list(settings.trusted_proxies),
        ssl_certfile=settings.certificate,
        ssl_keyfile=settings.private_key,
    )
    try:
        config.load()
    except OSError as error:
        raise ConfigurationError(
            f"the certificate {settings.certificate} or its key cannot be used: {error.strerror or error}; "
            "give both as PEM files that this process may read"
        ) from error
    return config


async def _listening(server: _Server, serving: asyncio.Task[None]) -> None:
    """Return once the server listens; raise what it raised instead."""
    waiting = asyncio.create_task(server.listening.wait())
    await asyncio.wait({waiting, serving}, return_when=asyncio.FIRST_COMPLETED)
    if serving.done():
        waiting.cancel()
        serving.result()
