"""Wherever a server hangs up, falls silent or talks nonsense: what is then known."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from redrive.mail.smtp.envelope import Envelope
from redrive.mail.smtp.errors import (
    Dropped,
    ProtocolError,
    SmtpPhase,
    TimedOut,
)
from redrive.mail.smtp.opening import open_connection
from tests.mail.attempts import HASTY, LARGE, MAIL, attempt
from tests.mail.scripted_server import Script, Session, envelope, greet, scripted


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
        pytest.param([], SmtpPhase.GREETING, False, id="before the greeting"),
        pytest.param([raw(b"220-hel")], SmtpPhase.GREETING, False, id="in the middle of the greeting"),
        pytest.param([raw(b"220 hello\r\n"), read_line], SmtpPhase.EHLO, False, id="after EHLO"),
        pytest.param([lock_step, read_line], SmtpPhase.MAIL, False, id="after MAIL"),
        pytest.param([lock_step, MAIL_OK, read_line], SmtpPhase.RCPT, False, id="after RCPT"),
        pytest.param([lock_step, MAIL_OK, RCPT_OK, read_line], SmtpPhase.DATA, False, id="before 354"),
        pytest.param([lock_step, envelope, part_of_content], SmtpPhase.DATA, False, id="in the content"),
        pytest.param([lock_step, envelope, content], SmtpPhase.FINAL, True, id="after the dot"),
        pytest.param(
            [lock_step, envelope, content, raw(b"250 o")], SmtpPhase.FINAL, True, id="in the last reply"
        ),
    ],
)
async def test_a_drop_says_its_phase_and_whether_the_dot_was_sent(
    steps: list[Callable[[Session], Awaitable[None]]], phase: SmtpPhase, after_dot: bool
) -> None:
    mail = LARGE if part_of_content in steps else MAIL
    error = await attempt(drops(*steps), mail)
    assert isinstance(error, Dropped)
    assert (error.phase, error.after_dot) == (phase, after_dot)


async def test_a_drop_in_a_pipelined_envelope_says_what_was_answered() -> None:
    async def script(session: Session) -> None:
        await greet(session, "PIPELINING")
        await session.command("MAIL", "250 ok")
        await session.command("RCPT", "550 5.1.1 no")
        await session.writer.drain()

    async with scripted(script) as server:
        connection = await open_connection(server.relay)
        with pytest.raises(Dropped) as caught:
            await connection.send(Envelope("a@b", ("c@d", "e@f"), MAIL.content))
    assert caught.value.phase is SmtpPhase.RCPT
    assert [(reply.recipient, reply.reply.code) for reply in caught.value.recipients] == [("c@d", 550)]


async def test_a_drop_after_a_reply_that_decides_is_that_reply() -> None:
    async def script(session: Session) -> None:
        await greet(session, "PIPELINING")
        await session.command("MAIL", "550 5.7.1 no")
        await session.writer.drain()

    async with scripted(script) as server:
        (reply,) = await (await open_connection(server.relay)).send(MAIL)
    assert (reply.phase, str(reply.reply)) == (SmtpPhase.MAIL, "550 5.7.1 no")


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
        ([], SmtpPhase.GREETING, False),
        ([lock_step, read_line], SmtpPhase.MAIL, False),
        ([lock_step, envelope, content], SmtpPhase.FINAL, True),
    ],
    ids=["greeting", "MAIL", "the dot"],
)
async def test_an_oddity_closes_the_connection(
    data: bytes, steps: list[Callable[[Session], Awaitable[None]]], phase: SmtpPhase, after_dot: bool
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
        pytest.param([], SmtpPhase.GREETING, False, id="greeting"),
        pytest.param([raw(b"220 hello\r\n")], SmtpPhase.EHLO, False, id="EHLO"),
        pytest.param([lock_step], SmtpPhase.MAIL, False, id="MAIL"),
        pytest.param([lock_step, MAIL_OK], SmtpPhase.RCPT, False, id="RCPT"),
        pytest.param([lock_step, MAIL_OK, RCPT_OK], SmtpPhase.DATA, False, id="DATA"),
        pytest.param([lock_step, envelope], SmtpPhase.FINAL, True, id="final dot"),
    ],
)
async def test_silence_ends_in_a_timeout_that_says_its_phase(
    steps: list[Callable[[Session], Awaitable[None]]], phase: SmtpPhase, after_dot: bool
) -> None:
    async def script(session: Session) -> None:
        for step in steps:
            await step(session)
        await session.client_gone()

    error = await attempt(script, settings=HASTY)
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
        connection = await open_connection(server.relay, settings=HASTY)
        with pytest.raises(TimedOut) as caught:
            await connection.send(LARGE)
        gone.set()
    assert (caught.value.phase, caught.value.after_dot) == (SmtpPhase.DATA, False)


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
        error = await attempt(script, settings=HASTY)
    assert isinstance(error, TimedOut | ProtocolError)
