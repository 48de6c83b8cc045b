"""The mailbox: a mail server on a port of its own, and what it received.

Listens on 127.0.0.1 by default; it lets everybody in and sends nothing anywhere, so another
address is for networks one trusts. Everything runs in the caller's event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from redrive.core.errors import CannotListen
from redrive.machine.addresses import why_refused, write_address
from redrive.mailbox.connection import ServerConnection, Timing
from redrive.mailbox.inbox import Inbox
from redrive.mailbox.memory import MailTries
from redrive.mailbox.received import Attempt, Received
from redrive.mailbox.session import ServerSession
from redrive.mailbox.settings import MailboxSettings
from redrive.mailbox.transaction import SharedState

_BACKLOG = 1_024
_BUFFER = 65_536


class Mailbox:
    """A mail server for tests and demonstrations. Port 0 takes a free one; `url` then names it."""

    def __init__(
        self,
        host: str = "127.0.0.1",
        port: int = 0,
        folder: Path | None = None,
        *,
        settings: MailboxSettings | None = None,
        timing: Timing | None = None,
    ) -> None:
        self._host = host
        self._port = port
        self._folder = folder
        self._settings = settings or MailboxSettings()
        self._timing = timing
        self._memory = MailTries()
        self._buffer = memoryview(bytearray(_BUFFER))
        self._server: asyncio.Server | None = None
        self._connections: set[ServerConnection] = set()
        self._emptied = asyncio.Event()
        self._inbox = Inbox(self._settings)

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    @property
    def host(self) -> str:
        return self._host

    @property
    def port(self) -> int:
        """The port it listens on."""
        return self._port

    @property
    def url(self) -> str:
        """The address for a client, without credentials."""
        scheme = "smtp" if self._settings.tls is None else "smtp+starttls"
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"{scheme}://{host}:{self._port}"

    @property
    def received(self) -> Sequence[Received]:
        """The mails that are kept, oldest first."""
        return self._inbox.received

    @property
    def attempts(self) -> Sequence[Attempt]:
        """One for each RCPT, in the order in which they were decided."""
        return tuple(self._inbox.attempts)

    @property
    def total(self) -> int:
        """How many mails came since the start or the last `clear`, kept or gone since."""
        return self._inbox.total

    @property
    def duplicates(self) -> int:
        """How many of them had come before."""
        return self._inbox.duplicates

    def find(self, *, to: str | None = None, subject: str | None = None) -> list[Received]:
        """Mails to exactly this address, case aside, whose subject holds these words."""
        return self._inbox.find(to, subject)

    async def wait_for(self, count: int, timeout_s: float = 10.0) -> Sequence[Received]:
        """The mails, once `count` have come in all; TimeoutError says how many did."""
        if not await self._inbox.wait_until(lambda: self._inbox.total >= count, timeout_s):
            raise TimeoutError(self._too_few(f"{self.total} of {count} mails", timeout_s))
        return self.received

    async def wait_for_attempts(self, count: int, timeout_s: float = 10.0) -> Sequence[Attempt]:
        """The attempts, once there were `count` in all, whatever came of them."""
        if not await self._inbox.wait_until(lambda: self._inbox.tried >= count, timeout_s):
            raise TimeoutError(self._too_few(f"{self._inbox.tried} of {count} attempts", timeout_s))
        return self.attempts

    def clear(self) -> None:
        """Forget all mails and attempts, and what addresses were tried before."""
        self._inbox.clear()
        self._memory.clear()

    async def open(self) -> None:
        """Read the folder and listen."""
        loop = asyncio.get_running_loop()
        timing = self._timing or loop
        self._inbox = Inbox(self._settings, self._folder)
        desk = SharedState(self._inbox, self._memory, timing.time)
        try:
            self._server = await loop.create_server(
                lambda: self._connection(desk, timing), self._host, self._port, backlog=_BACKLOG
            )
        except OSError as error:
            self._inbox.close()
            raise CannotListen(
                f"the mailbox simulator cannot listen on {write_address(self._host, self._port)}: "
                f"{why_refused(error)}; stop what listens there, or listen elsewhere"
            ) from error
        self._port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        """Stop listening and close every connection; what was received can still be read."""
        if self._server is None:
            return
        server, self._server = self._server, None
        server.close()
        for connection in list(self._connections):
            connection.abort()
        while self._connections:
            self._emptied.clear()
            await self._emptied.wait()
        await server.wait_closed()
        self._inbox.close()

    def _too_few(self, what: str, timeout_s: float) -> str:
        last = f"the last attempt got {self.attempts[-1].reply!r}" if self.attempts else "nobody tried"
        return f"{what} came to {self.url} within {timeout_s:g} s, {last}: see the mailbox's attempts"

    def _connection(self, desk: SharedState, timing: Timing) -> ServerConnection:
        settings = self._settings
        connection = ServerConnection(
            ServerSession(settings, desk), timing, settings.idle_s, settings.tls, self._buffer, self._forget
        )
        self._connections.add(connection)
        return connection

    def _forget(self, connection: ServerConnection) -> None:
        self._connections.discard(connection)
        self._emptied.set()


async def serve(
    host: str = "127.0.0.1",
    port: int = 2525,
    folder: Path | None = None,
    *,
    settings: MailboxSettings | None = None,
    ready: Callable[[Mailbox], None] | None = None,
) -> None:
    """Run a mailbox until cancelled; `ready` is called once it listens."""
    async with Mailbox(host, port, folder, settings=settings) as mailbox:
        if ready is not None:
            ready(mailbox)
        await asyncio.Event().wait()
