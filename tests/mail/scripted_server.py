"""A mail server that does exactly what a test tells it, also what no server should.

A script is a coroutine that talks on one connection; the first connection runs the first script, and so
on, the last script repeats. What a session read is kept. A script that ends closes its connection.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from redrive.mail.smtp.relay import Relay


class Session:
    """One connection, seen from the server."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self.lines: list[str] = []
        self.contents: list[bytes] = []

    async def line(self) -> str:
        """The next command; empty when the client is gone."""
        text = (await self.reader.readline()).decode().rstrip("\r\n")
        self.lines.append(text)
        return text

    async def command(self, verb: str, answer: str) -> str:
        """Expect a command and answer it."""
        line = await self.line()
        assert line.upper().startswith(verb), f"{line!r} came, {verb} was expected"
        self.say(answer)
        return line

    async def content(self) -> bytes:
        """The bytes up to and without the final dot, still dot-stuffed."""
        data = b"\r\n" + await self.reader.readuntil(b".\r\n")
        while not data.endswith(b"\r\n.\r\n"):
            data += await self.reader.readuntil(b".\r\n")
        self.contents.append(data[2:-3])
        return data[2:-3]

    def say(self, text: str) -> None:
        """Lines to the client, each ended properly."""
        self.writer.write("".join(f"{line}\r\n" for line in text.split("\n")).encode())

    def raw(self, data: bytes) -> None:
        self.writer.write(data)

    def hang_up(self) -> None:
        """Close without a goodbye, losing what the client still sends."""
        self.writer.transport.abort()

    async def client_gone(self) -> None:
        """Wait until the client has closed."""
        while await self.reader.read(65_536):
            pass

    async def start_tls(self, context: ssl.SSLContext) -> None:
        await self.writer.start_tls(context)


Script = Callable[[Session], Awaitable[None]]


class ScriptedServer:
    """The server's address, and its sessions in the order they came."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.sessions: list[Session] = []
        self.problems: list[Exception] = []

    @property
    def relay(self) -> Relay:
        return Relay.parse(f"smtp://127.0.0.1:{self.port}")


@asynccontextmanager
async def scripted(*scripts: Script, context: ssl.SSLContext | None = None) -> AsyncIterator[ScriptedServer]:
    """A running server; a script that failed an assertion fails the test at the end."""
    found = ScriptedServer(0)
    tasks: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        session = Session(reader, writer)
        script = scripts[min(len(found.sessions), len(scripts) - 1)]
        found.sessions.append(session)
        task = asyncio.create_task(run(script, session))
        tasks.add(task)
        await asyncio.wait([task])  # a cancelled task of asyncio's own would be logged as an error

    async def run(script: Script, session: Session) -> None:
        try:
            await script(session)
        except (OSError, asyncio.IncompleteReadError):
            pass  # the client hung up on the script
        except Exception as error:  # noqa: BLE001 - shown at the end of the test
            found.problems.append(error)
        finally:
            session.writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    found.port = server.sockets[0].getsockname()[1]
    try:
        yield found
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await server.wait_closed()
    if found.problems:
        raise found.problems[0]


async def greet(session: Session, *extensions: str) -> None:
    """The greeting and the answer to EHLO."""
    session.say("220 scripted.example ESMTP")
    lines = ["scripted.example", *extensions]
    answer = [f"250{'-' if line is not lines[-1] else ' '}{line}" for line in lines]
    await session.command("EHLO", "\n".join(answer))


async def envelope(session: Session, *, recipients: int = 1) -> None:
    """Accept an envelope up to the go-ahead."""
    await session.command("MAIL", "250 2.1.0 sender ok")
    for _ in range(recipients):
        await session.command("RCPT", "250 2.1.5 recipient ok")
    await session.command("DATA", "354 go ahead")


async def deliver(session: Session, answer: str = "250 2.0.0 taken") -> None:
    """Accept a whole mail."""
    await envelope(session)
    await session.content()
    session.say(answer)


def obliging(*extensions: str) -> Script:
    """A script that takes everything, with PIPELINING or without."""

    async def script(session: Session) -> None:
        await greet(session, *extensions)
        while line := await session.line():
            verb = line[:4].upper()
            if verb == "QUIT":
                session.say("221 bye")
                return
            session.say("354 go ahead" if verb == "DATA" else "250 ok")
            if verb == "DATA":
                await session.content()
                session.say("250 taken")

    return script
