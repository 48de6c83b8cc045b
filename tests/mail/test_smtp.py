"""One connection against a scripted server: how it sends, is refused, is cancelled and says goodbye."""

from __future__ import annotations

import asyncio

import pytest

from redrive.mail.smtp.connection import Connection
from redrive.mail.smtp.envelope import Envelope
from redrive.mail.smtp.errors import (
    Dropped,
    Refused,
    SmtpPhase,
    Unreachable,
    Unsupported,
)
from redrive.mail.smtp.opening import open_connection
from redrive.mail.smtp.relay import Relay
from tests.mail.attempts import HASTY, LARGE, MAIL, MODES, attempt
from tests.mail.scripted_server import Session, deliver, greet, obliging, scripted
from tests.servers import reserved_port


@MODES
async def test_mails_go_one_after_another_on_one_connection(extensions: tuple[str, ...]) -> None:
    async with scripted(obliging(*extensions)) as server:
        connection = await open_connection(server.relay)
        for _ in range(3):
            (reply,) = await connection.send(MAIL)
            assert reply.accepted
            assert reply.recipient == "b@example.org"
        await connection.close()
        assert server.sessions[0].contents == [b"Subject: x\r\n\r\n..hello\r\n"] * 3
        assert server.sessions[0].lines[-1] == "QUIT"


@MODES
async def test_a_large_mail_goes_out_in_blocks(extensions: tuple[str, ...]) -> None:
    async with scripted(obliging(*extensions)) as server:
        connection = await open_connection(server.relay)
        server.sessions[0].reader._limit = 2**24  # type: ignore[attr-defined]  # one line has no dot
        assert (await connection.send(LARGE))[0].accepted
        await connection.close()
        assert server.sessions[0].contents == [LARGE.content]


@MODES
async def test_some_recipients_refused_and_some_accepted(extensions: tuple[str, ...]) -> None:
    async def script(session: Session) -> None:
        await greet(session, *extensions)
        await session.command("MAIL", "250 ok")
        await session.command("RCPT", "550 5.1.1 no such user")
        await session.command("RCPT", "250 ok")
        await session.command("DATA", "354 go")
        await session.content()
        session.say("250 taken")

    async with scripted(script) as server:
        connection = await open_connection(server.relay)
        replies = await connection.send(Envelope("a@b", ("c@d", "e@f"), MAIL.content))
        connection.quit()
    assert [(reply.recipient, reply.phase, reply.accepted) for reply in replies] == [
        ("c@d", SmtpPhase.RCPT, False),
        ("e@f", SmtpPhase.FINAL, True),
    ]
    assert replies[0].reply.enhanced == "5.1.1"


@pytest.mark.parametrize(
    ("greeting", "code"), [("554 5.7.1 go away", 554), ("421 4.3.2 busy", 421), ("450-a\n450 b", 450)]
)
async def test_a_refused_greeting_has_the_servers_words(greeting: str, code: int) -> None:
    async def script(session: Session) -> None:
        session.say(greeting)
        await session.client_gone()

    error = await attempt(script)
    assert isinstance(error, Refused)
    assert (error.phase, error.code) == (SmtpPhase.GREETING, code)


async def test_an_old_server_is_greeted_with_helo() -> None:
    async def script(session: Session) -> None:
        session.say("220 old")
        await session.command("EHLO", "502 what?")
        await session.command("HELO", "250 hello")
        await deliver(session)

    async with scripted(script) as server:
        connection = await open_connection(server.relay)
        assert (await connection.send(MAIL))[0].accepted
        connection.quit()


async def test_nothing_listens_is_unreachable_with_its_cause() -> None:
    with reserved_port() as port, pytest.raises(Unreachable) as caught:
        await open_connection(Relay.parse(f"smtp://127.0.0.1:{port}"))
    assert isinstance(caught.value.__cause__, ConnectionRefusedError)
    assert caught.value.phase is SmtpPhase.CONNECT


async def test_a_name_that_does_not_resolve_is_unreachable() -> None:
    with pytest.raises(Unreachable, match="resolved"):
        await open_connection(Relay.parse("smtp://no-such-host.invalid?starttls=off"))


async def test_what_the_server_cannot_carry_is_told_and_the_connection_stays() -> None:
    async with scripted(obliging("SIZE 30")) as server:
        connection = await open_connection(server.relay)
        with pytest.raises(Unsupported, match="at most 30"):
            await connection.send(LARGE)
        assert (await connection.send(MAIL))[0].accepted
        await connection.close()


async def test_a_cancelled_send_closes_the_connection() -> None:
    asked, gone = asyncio.Event(), asyncio.Event()

    async def script(session: Session) -> None:
        await greet(session)
        await session.line()
        asked.set()
        await session.client_gone()
        gone.set()

    async with scripted(script) as server, asyncio.timeout(10):
        connection = await open_connection(server.relay)
        task = asyncio.create_task(connection.send(MAIL))
        await asked.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await gone.wait()
        with pytest.raises(Dropped):
            await connection.send(MAIL)


async def test_a_server_that_says_421_is_left_at_once() -> None:
    gone = asyncio.Event()

    async def script(session: Session) -> None:
        await greet(session, "PIPELINING")
        await session.command("MAIL", "421 4.3.2 shutting down")
        await session.client_gone()
        gone.set()

    async with scripted(script) as server, asyncio.timeout(10):
        connection = await open_connection(server.relay)
        (reply,) = await connection.send(MAIL)
        assert (reply.phase, reply.reply.code) == (SmtpPhase.MAIL, 421)
        assert not connection.usable
        await gone.wait()


async def test_a_server_that_ignores_quit_is_left_after_a_short_while() -> None:
    async def script(session: Session) -> None:
        await greet(session)
        await session.client_gone()

    async with scripted(script) as server, asyncio.timeout(5):
        connection: Connection = await open_connection(server.relay, settings=HASTY)
        await connection.close()


async def test_an_error_never_shows_more_of_a_reply_than_a_line_holds() -> None:
    async def script(session: Session) -> None:
        session.raw(b"554 \x1b[31m" + b"x" * 1_900 + b"\r\n")
        await session.client_gone()

    error = await attempt(script)
    assert "\x1b" not in str(error)
    assert len(str(error)) < 700
