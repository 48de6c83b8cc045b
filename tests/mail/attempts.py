"""What the tests of the SMTP client send, how impatient they are, and what came of it."""

from __future__ import annotations

from collections import Counter

import pytest

from redrive.core.settings import SmtpSettings
from redrive.mail.smtp.envelope import Envelope
from redrive.mail.smtp.errors import SmtpError
from redrive.mail.smtp.opening import open_connection
from redrive.mail.smtp.pool import Pool
from tests.mail.scripted_server import Script, ScriptedServer, scripted
from tests.waiting import wait_until

MAIL = Envelope("a@example.org", ("b@example.org",), b"Subject: x\r\n\r\n.hello\r\n")
LARGE = Envelope("a@example.org", ("b@example.org",), b"Subject: x\r\n\r\n" + (b"y" * 76 + b"\r\n") * 100_000)
SHORT_S = 1.0
HASTY = SmtpSettings(
    connect_s=5,
    greeting_s=SHORT_S,
    command_s=SHORT_S,
    data_s=SHORT_S,
    block_s=SHORT_S,
    final_s=SHORT_S,
    probe_s=SHORT_S,
    quit_s=SHORT_S,
)
MODES = pytest.mark.parametrize("extensions", [(), ("PIPELINING",)], ids=["lock-step", "pipelining"])


def mail(number: int = 0) -> Envelope:
    """A mail that can be told from others."""
    return Envelope("a@example.org", ("b@example.org",), b"Subject: %d\r\n\r\nhello\r\n" % number)


def delivered(server: ScriptedServer) -> Counter[bytes]:
    """How often each content arrived."""
    return Counter(content for session in server.sessions for content in session.contents)


async def attempt(script: Script, mail: Envelope = MAIL, settings: SmtpSettings | None = None) -> SmtpError:
    """The error that a send meets on this server."""
    async with scripted(script) as server:
        with pytest.raises(SmtpError) as caught:
            await (await open_connection(server.relay, settings=settings)).send(mail)
    return caught.value


async def make_stale(pool: Pool) -> None:
    """As if its connection had been idle for an hour."""
    await wait_until(lambda: pool.idle == pool.connections == 1, 20, "its connection is idle")
    (connection,) = pool._idle
    connection._idle_since -= 3_600
