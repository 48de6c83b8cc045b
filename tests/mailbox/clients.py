"""What the tests of the mailbox talk to it with: a raw connection, and a clock that is moved by hand."""

from __future__ import annotations

import asyncio
import smtplib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from email.message import EmailMessage

from redrive.mailbox import Mailbox

CONTENT = b"Subject: hello\r\nMessage-ID: <1@example.org>\r\n\r\nfirst line\r\n"


def content(message_id: str, subject: str = "hello") -> bytes:
    return f"Subject: {subject}\r\nMessage-ID: <{message_id}>\r\n\r\nfirst line\r\n".encode()


async def with_smtplib(mailbox: Mailbox, talk: Callable[[smtplib.SMTP], object]) -> None:
    """Run a conversation of the standard library's client in a thread."""

    def run() -> None:
        with smtplib.SMTP(mailbox.host, mailbox.port, timeout=10) as client:
            talk(client)

    await asyncio.to_thread(run)


def message(to: str = "ok@example.org") -> EmailMessage:
    mail = EmailMessage()
    mail["From"], mail["To"], mail["Subject"] = "a@example.org", to, "grüße"
    mail["Message-ID"] = "<1@example.org>"
    mail.set_content("first\n.second\n..\n\nend")
    return mail


class RawClient:
    """A connection that says exactly what a test tells it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    async def reply(self) -> str:
        """The next reply, its lines joined; empty when the server has closed."""
        lines: list[str] = []
        while True:
            try:
                line = (await self._reader.readline()).decode("utf-8", "replace").rstrip("\r\n")
            except ConnectionError:
                return ""
            lines.append(line)
            if line[3:4] != "-":
                return "\n".join(lines)

    async def replies(self, count: int) -> list[str]:
        return [await self.reply() for _ in range(count)]

    def write(self, data: bytes) -> None:
        self._writer.write(data)

    async def drain(self) -> None:
        """Until the socket has taken most of what was written."""
        await self._writer.drain()

    async def say(self, line: str) -> str:
        """One command and its reply."""
        self.write(line.encode() + b"\r\n")
        return await self.reply()

    async def envelope(self, recipient: str, sender: str = "a@example.org") -> list[str]:
        """MAIL, RCPT and DATA, one after the other."""
        lines = (f"MAIL FROM:<{sender}>", f"RCPT TO:<{recipient}>", "DATA")
        return [await self.say(line) for line in lines]

    async def deliver(self, recipient: str, body: bytes = CONTENT, sender: str = "a@example.org") -> str:
        """A whole mail; the reply to its final dot."""
        answers = await self.envelope(recipient, sender)
        assert answers[2].startswith("354"), answers
        self.write(body + b".\r\n")
        return await self.reply()

    def close(self) -> None:
        self._writer.close()


@asynccontextmanager
async def raw_client(mailbox: Mailbox, *, greet: bool = True) -> AsyncIterator[RawClient]:
    reader, writer = await asyncio.open_connection(mailbox.host, mailbox.port)
    client = RawClient(reader, writer)
    try:
        assert (await client.reply()).startswith("220 ")
        if greet:
            assert (await client.say("EHLO test.example")).startswith("250-")
        yield client
    finally:
        client.close()


@dataclass(eq=False)
class ManualTimer:
    """A call that comes when the clock is moved past its time."""

    due_at: float
    callback: Callable[[], None]
    cancelled: bool = False

    def cancel(self) -> None:
        self.cancelled = True


@dataclass
class ManualTiming:
    """A clock that stands still until it is moved."""

    now: float = 1_000.0
    timers: list[ManualTimer] = field(default_factory=list)
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    def time(self) -> float:
        return self.now

    def call_later(self, delay: float, callback: Callable[[], None], /) -> ManualTimer:
        timer = ManualTimer(self.now + delay, callback)
        self.timers.append(timer)
        self._changed.set()
        return timer

    def advance(self, seconds: float) -> None:
        self.now += seconds
        due = [timer for timer in self.timers if timer.due_at <= self.now]
        self.timers = [timer for timer in self.timers if timer.due_at > self.now]
        for timer in due:
            if not timer.cancelled:
                timer.callback()

    async def until_armed(self, delay: float) -> None:
        """Wait until somebody waits for that long from now."""
        while not any(abs(timer.due_at - self.now - delay) < 1e-6 for timer in self.timers):
            self._changed.clear()
            await self._changed.wait()
