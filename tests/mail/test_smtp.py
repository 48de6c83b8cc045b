"""One connection against a scripted server: every way to succeed, to be refused, and to lose the line."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from redrive.mail.envelope import Envelope
from redrive.mail.opening import open_connection
from redrive.mail.relay import Relay
from redrive.mail.smtp import Connection
from redrive.mail.smtp_errors import (
    Dropped,
    Phase,
    ProtocolError,
    Refused,
    SmtpError,
    TimedOut,
    Unreachable,
    Unsupported,
)
from redrive.mail.smtp_settings import SmtpTimeouts
from tests.mail.scripted_server import Script, Session, deliver, envelope, greet, obliging, scripted
from tests.servers import free_port

MAIL = Envelope("a@example.org", ("b@example.org",), b"Subject: x\r\n\r\n.hello\r\n")
LARGE = Envelope("a@example.org", ("b@example.org",), b"Subject: x\r\n\r\n" + (b"y" * 76 + b"\r\n") * 100_000)
HASTY = SmtpTimeouts(
    connect_s=5,
    greeting_s=0.05,
    command_s=0.05,
    data_s=0.05,
    block_s=0.05,
    final_s=0.05,
    probe_s=0.05,
    quit_s=0.05,
)
PIPELINING = "PIPELINING"
MODES = pytest.mark.parametrize("extensions", [(), (PIPELINING,)], ids=["lock-step", "pipelining"])


async def attempt(script: Script, mail: Envelope = MAIL, timeouts: SmtpTimeouts | None = None) -> SmtpError:
    """The error that a send meets on this server."""
    async with scripted(script) as server:
        with pytest.raises(SmtpError) as caught:
            await (await open_connection(server.relay, timeouts=timeouts)).send(mail)
    return caught.value


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
        ("c@d", Phase.RCPT, False),
        ("e@f", Phase.FINAL, True),
    ]
    assert replies[0].reply.enhanced == "5.1.1"


def drops(*before: Callable[[Session], Awaitable[None]]) -> Script:
    """A script that does these things and hangs up."""

    async def script(session: Session) -> None:
        for step in before:
            await step(session)
        session.hang_up()

    return script


def expect(verb: str, answer: str) -> Callable[[Session], Awaitable[None]]:
    async def step(session: Session) -> None:
        await session.command(verb, answer)
        await session.writer.drain()

    return step


def raw(data: bytes) -> Callable[[Session], Awaitable[None]]:
    async def step(session: Session) -> None:
        session.raw(data)

    return step


async def lock_step(session: Session) -> None:
    await greet(session)


async def content(session: Session) -> None:
    await session.content()


async def part_of_content(session: Session) -> None:
    await session.reader.readexactly(10_000)


async def read_line(session: Session) -> None:
    await session.line()


MAIL_OK, RCPT_OK, GO = expect("MAIL", "250 ok"), expect("RCPT", "250 ok"), expect("DATA", "354 go")


@pytest.mark.parametrize(
    ("steps", "phase", "after_dot"),
    [
        pytest.param([], Phase.GREETING, False, id="before the greeting"),
        pytest.param([raw(b"220-hel")], Phase.GREETING, False, id="in the middle of the greeting"),
        pytest.param([raw(b"220 hello\r\n"), read_line], Phase.EHLO, False, id="after EHLO"),
        pytest.param([lock_step, read_line], Phase.MAIL, False, id="after MAIL"),
        pytest.param([lock_step, MAIL_OK, read_line], Phase.RCPT, False, id="after RCPT"),
        pytest.param([lock_step, MAIL_OK, RCPT_OK, read_line], Phase.DATA, False, id="before 354"),
        pytest.param([lock_step, envelope, part_of_content], Phase.DATA, False, id="in the content"),
        pytest.param([lock_step, envelope, content], Phase.FINAL, True, id="after the dot"),
        pytest.param(
            [lock_step, envelope, content, raw(b"250 o")], Phase.FINAL, True, id="in the last reply"
        ),
    ],
)
async def test_a_drop_says_its_phase_and_whether_the_dot_was_sent(
    steps: list[Callable[[Session], Awaitable[None]]], phase: Phase, after_dot: bool
) -> None:
    mail = LARGE if part_of_content in steps else MAIL
    error = await attempt(drops(*steps), mail)
    assert isinstance(error, Dropped)
    assert (error.phase, error.after_dot) == (phase, after_dot)


async def test_a_drop_in_a_pipelined_envelope_says_what_was_answered() -> None:
    async def script(session: Session) -> None:
        await greet(session, PIPELINING)
        await session.command("MAIL", "250 ok")
        await session.command("RCPT", "550 5.1.1 no")
        await session.writer.drain()

    async with scripted(script) as server:
        connection = await open_connection(server.relay)
        with pytest.raises(Dropped) as caught:
            await connection.send(Envelope("a@b", ("c@d", "e@f"), MAIL.content))
    assert caught.value.phase is Phase.RCPT
    assert [(reply.recipient, reply.reply.code) for reply in caught.value.recipients] == [("c@d", 550)]


async def test_a_drop_after_a_reply_that_decides_is_that_reply() -> None:
    async def script(session: Session) -> None:
        await greet(session, PIPELINING)
        await session.command("MAIL", "550 5.7.1 no")
        await session.writer.drain()

    async with scripted(script) as server:
        (reply,) = await (await open_connection(server.relay)).send(MAIL)
    assert (reply.phase, str(reply.reply)) == (Phase.MAIL, "550 5.7.1 no")


ODD = {
    "garbage": b"hello there\r\n",
    "an endless line": b"250 " + b"x" * 10_000,
    "an endless reply": b"250-more\r\n" * 1_000,
    "codes that change": b"250-one\r\n550 two\r\n",
    "an answer that does not fit": b"354 go\r\n",
    "a TLS record": b"\x16\x03\x01\x00\x05\n",
}


@pytest.mark.parametrize("data", ODD.values(), ids=ODD.keys())
@pytest.mark.parametrize(
    ("steps", "phase", "after_dot"),
    [
        ([], Phase.GREETING, False),
        ([lock_step, read_line], Phase.MAIL, False),
        ([lock_step, envelope, content], Phase.FINAL, True),
    ],
    ids=["greeting", "MAIL", "the dot"],
)
async def test_an_oddity_closes_the_connection(
    data: bytes, steps: list[Callable[[Session], Awaitable[None]]], phase: Phase, after_dot: bool
) -> None:
    async def script(session: Session) -> None:
        for step in steps:
            await step(session)
        session.raw(data)
        await session.client_gone()

    error = await attempt(script)
    assert isinstance(error, ProtocolError)
    assert (error.phase, error.after_dot) == (phase, after_dot)


@pytest.mark.parametrize(
    ("steps", "phase", "after_dot"),
    [
        pytest.param([], Phase.GREETING, False, id="greeting"),
        pytest.param([raw(b"220 hello\r\n")], Phase.EHLO, False, id="EHLO"),
        pytest.param([lock_step], Phase.MAIL, False, id="MAIL"),
        pytest.param([lock_step, MAIL_OK], Phase.RCPT, False, id="RCPT"),
        pytest.param([lock_step, MAIL_OK, RCPT_OK], Phase.DATA, False, id="DATA"),
        pytest.param([lock_step, envelope], Phase.FINAL, True, id="final dot"),
    ],
)
async def test_silence_ends_in_a_timeout_that_says_its_phase(
    steps: list[Callable[[Session], Awaitable[None]]], phase: Phase, after_dot: bool
) -> None:
    async def script(session: Session) -> None:
        for step in steps:
            await step(session)
        await session.client_gone()

    error = await attempt(script, timeouts=HASTY)
    assert isinstance(error, TimedOut)
    assert (error.phase, error.after_dot) == (phase, after_dot)


async def test_content_that_the_server_does_not_take_times_out_before_the_dot() -> None:
    gone = asyncio.Event()

    async def script(session: Session) -> None:
        await greet(session)
        await envelope(session)
        session.writer.transport.pause_reading()  # type: ignore[attr-defined]
        await gone.wait()

    async with scripted(script) as server:
        connection = await open_connection(server.relay, timeouts=HASTY)
        with pytest.raises(TimedOut) as caught:
            await connection.send(LARGE)
        gone.set()
    assert (caught.value.phase, caught.value.after_dot) == (Phase.DATA, False)


async def test_a_drip_of_bytes_does_not_move_the_deadline() -> None:
    async def script(session: Session) -> None:
        await greet(session)
        ticks = asyncio.get_running_loop()
        dripping = True

        def drip() -> None:
            if dripping and not session.writer.is_closing():
                session.raw(b"2")
                ticks.call_later(0.01, drip)

        drip()
        await session.client_gone()
        dripping = False

    async with asyncio.timeout(10):
        error = await attempt(script, timeouts=HASTY)
    assert isinstance(error, TimedOut | ProtocolError)


@pytest.mark.parametrize(
    ("greeting", "code"), [("554 5.7.1 go away", 554), ("421 4.3.2 busy", 421), ("450-a\n450 b", 450)]
)
async def test_a_refused_greeting_has_the_servers_words(greeting: str, code: int) -> None:
    async def script(session: Session) -> None:
        session.say(greeting)
        await session.client_gone()

    error = await attempt(script)
    assert isinstance(error, Refused)
    assert (error.phase, error.code) == (Phase.GREETING, code)


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
    with pytest.raises(Unreachable) as caught:
        await open_connection(Relay.parse(f"smtp://127.0.0.1:{free_port()}"))
    assert isinstance(caught.value.__cause__, ConnectionRefusedError)
    assert caught.value.phase is Phase.CONNECT


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
    asked = asyncio.Event()

    async def script(session: Session) -> None:
        await greet(session)
        await session.line()
        asked.set()
        await session.client_gone()

    async with scripted(script) as server:
        connection = await open_connection(server.relay)
        task = asyncio.create_task(connection.send(MAIL))
        await asked.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not connection.usable
        with pytest.raises(Dropped):
            await connection.send(MAIL)
        await connection.close()


async def test_a_server_that_ignores_quit_is_left_after_a_short_while() -> None:
    async def script(session: Session) -> None:
        await greet(session)
        await session.client_gone()

    async with scripted(script) as server, asyncio.timeout(5):
        connection: Connection = await open_connection(server.relay, timeouts=HASTY)
        await connection.close()


async def test_an_error_never_shows_more_of_a_reply_than_a_line_holds() -> None:
    async def script(session: Session) -> None:
        session.raw(b"554 \x1b[31m" + b"x" * 1_900 + b"\r\n")
        await session.client_gone()

    error = await attempt(script)
    assert "\x1b" not in str(error)
    assert len(str(error)) < 700
