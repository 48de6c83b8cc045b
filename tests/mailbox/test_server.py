"""The whole server with clients that others wrote, many of them at once."""

from __future__ import annotations

import asyncio
import smtplib
import socket
from pathlib import Path

import aiosmtplib
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from redrive.core.errors import CannotListen, ConfigurationError
from redrive.mailbox import Mailbox, MailboxSettings, serve
from tests.mailbox.clients import CONTENT, ManualTiming, content, message, raw_client, with_smtplib


async def test_smtplib_delivers_a_message() -> None:
    async with Mailbox() as mailbox:
        await with_smtplib(mailbox, lambda client: client.send_message(message()))
        (mail,) = mailbox.find(to="ok@example.org", subject="grüße")
        assert b"\r\nfirst\r\n.second\r\n..\r\n\r\nend\r\n" in mail.content
        assert mail.message_id == "<1@example.org>"


async def test_aiosmtplib_delivers_a_message() -> None:
    async with Mailbox() as mailbox:
        await aiosmtplib.send(message(), hostname=mailbox.host, port=mailbox.port)
        assert (await mailbox.wait_for(1))[0].subject == "grüße"


async def test_clients_see_refusals_as_they_should() -> None:
    async with Mailbox() as mailbox:

        def talk(client: smtplib.SMTP) -> None:
            with pytest.raises(smtplib.SMTPRecipientsRefused) as caught:
                client.send_message(message("reply-550-5.1.1@x"))
            assert caught.value.recipients == {"reply-550-5.1.1@x": (550, b"5.1.1 simulated reply")}
            with pytest.raises(smtplib.SMTPDataError):
                client.send_message(message("data-554-5.7.1@x"))
            with pytest.raises(smtplib.SMTPServerDisconnected):
                client.send_message(message("drop-after-dot@x"))

        await with_smtplib(mailbox, talk)
        with pytest.raises(aiosmtplib.SMTPRecipientsRefused):
            await aiosmtplib.send(message("full@x"), hostname=mailbox.host, port=mailbox.port)
        with pytest.raises(aiosmtplib.SMTPServerDisconnected):
            await aiosmtplib.send(message("drop-at-data@x"), hostname=mailbox.host, port=mailbox.port)
        assert [mail.recipients for mail in mailbox.received] == [("drop-after-dot@x",)]


LINES = st.lists(
    st.text(st.characters(codec="ascii", exclude_characters="\r\n"), max_size=20) | st.just("."), min_size=1
)


@settings(max_examples=25, deadline=None)
@given(lines=LINES)
async def test_content_arrives_byte_for_byte(lines: list[str]) -> None:
    sent = "".join(f"{line}\r\n" for line in lines).encode()
    async with Mailbox() as mailbox:
        await with_smtplib(mailbox, lambda client: client.sendmail("a@x", "ok@x", sent))
        assert mailbox.received[0].content == sent


async def test_a_session_is_ended_after_so_many_messages() -> None:
    async with Mailbox(settings=MailboxSettings(max_messages_per_connection=2)) as mailbox:
        async with raw_client(mailbox) as client:
            for number in range(2):
                await client.deliver("ok@x", content(f"{number}@x"))
            assert (await client.say("MAIL FROM:<a@x>")).startswith("421 4.7.0")
            assert await client.reply() == ""
        async with raw_client(mailbox) as client:
            assert (await client.deliver("ok@x", content("3@x"))).startswith("250")


async def test_two_connections_at_once_do_not_disturb_each_other() -> None:
    timing = ManualTiming()
    async with Mailbox(timing=timing) as mailbox, raw_client(mailbox) as slow, raw_client(mailbox) as quick:
        slow.write(b"MAIL FROM:<slow@x>\r\nRCPT TO:<slow-1s@x>\r\nDATA\r\n")
        await timing.until_armed(1.0)
        await quick.envelope("ok+quick@x", "quick@x")
        quick.write(content("quick@x")[:20])
        timing.advance(1.0)
        assert (await slow.replies(3))[2].startswith("354")
        slow.write(content("slow@x") + b".\r\n")
        assert (await slow.reply()).startswith("250")
        quick.write(content("quick@x")[20:] + b".\r\n")
        assert (await quick.reply()).startswith("250")
        assert [(mail.sender, mail.message_id) for mail in mailbox.received] == [
            ("slow@x", "<slow@x>"),
            ("quick@x", "<quick@x>"),
        ]


async def test_many_connections_pipeline_many_mails_and_none_is_lost() -> None:
    async def client(mailbox: Mailbox, number: int) -> None:
        async with raw_client(mailbox) as raw:
            envelope = b"MAIL FROM:<a@x>\r\nRCPT TO:<ok@x>\r\nDATA\r\n"
            raw.write(envelope)
            for mail in range(50):
                assert (await raw.replies(3))[2].startswith("354")
                raw.write(content(f"{number}.{mail}@x") + b".\r\n" + envelope)
                assert (await raw.reply()).startswith("250")

    async with Mailbox() as mailbox:
        async with asyncio.TaskGroup() as group:
            for number in range(20):
                group.create_task(client(mailbox, number))
        assert (mailbox.total, mailbox.duplicates) == (1_000, 0)
        assert len({mail.message_id for mail in mailbox.received}) == 1_000


async def test_a_client_that_reads_nothing_is_read_no_further() -> None:
    async with Mailbox() as mailbox:
        reader, writer = await asyncio.open_connection(mailbox.host, mailbox.port, limit=1_024)
        await reader.readline()
        (connection,) = mailbox._connections
        transport = connection._transport
        assert transport is not None
        _hold_little(transport, writer.transport)
        async with asyncio.timeout(20):
            while transport.is_reading():
                writer.write(b"RSET\r\n" * 10_000)
                await asyncio.sleep(0)
        for _ in range(100):
            writer.write(b"RSET\r\n" * 1_000)
            await asyncio.sleep(0)
        assert (transport.is_reading(), transport.is_closing()) == (False, False)
        assert transport.get_write_buffer_size() < 1_000_000
        writer.transport.abort()


def _hold_little(*transports: asyncio.BaseTransport) -> None:
    """What the system keeps for a connection is as small as can be: it is full at once, and stays so."""
    for transport in transports:
        for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
            transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, option, 1)


async def test_a_silent_client_is_told_and_closed() -> None:
    timing = ManualTiming()
    wanted = MailboxSettings(idle_s=60)
    async with Mailbox(timing=timing, settings=wanted) as mailbox, raw_client(mailbox) as client:
        timing.advance(59)
        assert (await client.say("NOOP")).startswith("250")
        timing.advance(59)
        assert (await client.say("NOOP")).startswith("250")
        timing.advance(60)
        assert await client.replies(2) == ["421 4.4.2 no command for too long, goodbye", ""]


async def test_a_hanging_session_reads_on_but_its_end_is_not_put_off() -> None:
    timing = ManualTiming()
    async with Mailbox(timing=timing) as mailbox, raw_client(mailbox) as client:
        client.write(b"MAIL FROM:<a@x>\r\nRCPT TO:<hang@x>\r\n")
        await mailbox.wait_for_attempts(1)
        timing.advance(500)
        for _ in range(200):
            client.write(b"x" * 65_536)
            await client.drain()
        timing.advance(400)
        assert await client.replies(2) == ["250 2.1.0 sender ok", ""]


async def test_a_client_that_gives_up_leaves_no_timer_behind() -> None:
    timing = ManualTiming()
    async with Mailbox(timing=timing) as mailbox:
        async with raw_client(mailbox) as client:
            client.write(b"MAIL FROM:<a@x>\r\nRCPT TO:<slow-3s@x>\r\n")
            await timing.until_armed(3.0)
        await mailbox.wait_for_attempts(1)
        assert [timer.cancelled for timer in timing.timers] == [True, True]


async def test_closing_ends_every_connection_and_keeps_what_came() -> None:
    async with Mailbox() as mailbox, raw_client(mailbox) as client, raw_client(mailbox, greet=False):
        await client.deliver("ok@x")
        client.write(b"MAIL FROM:<a@x>\r\nRCPT TO:<hang@x>\r\n")
        await mailbox.wait_for_attempts(2)
        await mailbox.close()
        assert await client.replies(2) == ["250 2.1.0 sender ok", ""]
        assert mailbox.received[0].content == CONTENT
        with pytest.raises(OSError, match=r"[Rr]efused|Connect call failed"):
            await asyncio.open_connection(mailbox.host, mailbox.port)


async def test_a_port_in_use_is_named(tmp_path: Path) -> None:
    async with Mailbox() as mailbox:
        with pytest.raises(
            CannotListen, match=rf"cannot listen on 127\.0\.0\.1:{mailbox.port}: Address already"
        ):
            await Mailbox(port=mailbox.port, folder=tmp_path).open()
    async with Mailbox(folder=tmp_path):
        pass


async def test_serve_runs_until_it_is_cancelled(tmp_path: Path) -> None:
    listening: asyncio.Future[Mailbox] = asyncio.get_running_loop().create_future()
    task = asyncio.create_task(serve(port=0, folder=tmp_path, ready=listening.set_result))
    mailbox = await listening
    await aiosmtplib.send(message(), hostname=mailbox.host, port=mailbox.port)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert mailbox.total == 1


def test_settings_that_make_no_sense_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="keep_messages is 0"):
        MailboxSettings(keep_messages=0)
