"""The same mails by our client, by smtplib and by aiosmtplib: what arrives is the same, byte by byte."""

from __future__ import annotations

import asyncio
import smtplib
from collections.abc import Iterator
from pathlib import Path

import aiosmtplib
import pytest
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, Session
from aiosmtpd.smtp import Envelope as ReceivedEnvelope
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from redrive.core.settings import SmtpSettings
from redrive.mail.smtp.envelope import Envelope
from redrive.mail.smtp.opening import open_connection
from redrive.mail.smtp.pool import Pool
from redrive.mail.smtp.relay import Relay
from tests.mail.smtp_sink import smtp_sink
from tests.servers import free_port

SENDER, RECIPIENTS = "sender@example.org", ("one@example.org", "two@example.org")
HEAD = b"Subject: x\r\n\r\n"
LINES = st.lists(
    st.sampled_from(
        [b"", b".", b"..", b"...", b".a", b"a.", b"a", b"From x", b" ", b"\xc3\xa9", b"\x00", b"y" * 998]
    ),
    max_size=12,
)


class Inbox:
    """Keeps what a server received."""

    def __init__(self) -> None:
        self.received: list[tuple[str | None, list[str], object]] = []

    async def handle_DATA(self, server: SMTP, session: Session, envelope: ReceivedEnvelope) -> str:  # noqa: N802
        self.received.append((envelope.mail_from, envelope.rcpt_tos, envelope.content))
        return "250 taken"


@pytest.fixture(scope="module")
def controller() -> Iterator[Controller]:
    server = Controller(Inbox(), hostname="127.0.0.1", port=free_port())
    server.start()
    yield server
    server.stop()


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(lines=LINES, ended=st.booleans(), headed=st.booleans())
def test_all_three_clients_deliver_the_same_bytes(
    controller: Controller, lines: list[bytes], ended: bool, headed: bool
) -> None:
    content = (HEAD if headed else b"") + b"\r\n".join(lines) + (b"\r\n" if ended else b"")
    controller.handler.received.clear()
    with smtplib.SMTP("127.0.0.1", controller.port) as client:
        client.sendmail(SENDER, RECIPIENTS, content)
    asyncio.run(send_by_others(controller.port, content))
    by_smtplib, by_aiosmtplib, by_ours = controller.handler.received
    assert by_ours == by_smtplib
    if content:  # aiosmtplib sends nothing at all for an empty content, we and smtplib an empty line
        assert by_ours == by_aiosmtplib
    assert by_ours[2] == (content if content.endswith(b"\r\n") else content + b"\r\n")


async def send_by_others(port: int, content: bytes) -> None:
    async with aiosmtplib.SMTP(hostname="127.0.0.1", port=port, start_tls=False) as client:
        await client.sendmail(SENDER, list(RECIPIENTS), content)
    connection = await open_connection(Relay.parse(f"smtp://127.0.0.1:{port}"))
    replies = await connection.send(Envelope(SENDER, RECIPIENTS, content))
    assert all(reply.accepted for reply in replies)
    await connection.close()


async def test_aiosmtpds_extensions_are_used(controller: Controller) -> None:
    controller.handler.received.clear()
    connection = await open_connection(Relay.parse(f"smtp://127.0.0.1:{controller.port}"))
    offered = connection.dialogue.capabilities
    assert offered.size
    assert offered.eight_bit_mime
    assert offered.smtputf8
    mail = Envelope("jörg@example.org", ("dörte@example.org",), HEAD + "ä\r\n".encode(), smtputf8=True)
    assert (await connection.send(mail))[0].accepted
    await connection.close()
    assert controller.handler.received[0][:2] == ("jörg@example.org", ["dörte@example.org"])


async def test_the_sink_keeps_the_same_from_smtplib_and_from_a_pipelining_pool(tmp_path: Path) -> None:
    contents = [HEAD + b".%d\r\n..\r\n.\r\nend.%d\r\n" % (number, number) for number in range(60)]
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    for folder in (ours, theirs):
        folder.mkdir()
    with smtp_sink(ours) as sink:
        pool = Pool(Relay.parse(f"smtp://127.0.0.1:{sink.port}"), SmtpSettings(connections=3, messages=7))
        results = await asyncio.gather(*(pool.send(Envelope(SENDER, RECIPIENTS, each)) for each in contents))
        assert all(reply.accepted for replies in results for reply in replies)
        await pool.close()
        received = sink.contents()
    with smtp_sink(theirs) as sink:
        await asyncio.to_thread(send_by_smtplib, sink.port, contents)
        assert received == sink.contents()
    assert len(received) == len(contents)


def send_by_smtplib(port: int, contents: list[bytes]) -> None:
    with smtplib.SMTP("127.0.0.1", port) as client:
        for content in contents:
            client.sendmail(SENDER, RECIPIENTS, content)
