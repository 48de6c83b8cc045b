"""The pool: reuse, bounds, fairness, probes, the one repeat, draining, and cancellation at any point."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from redrive.core.settings import SmtpSettings
from redrive.mail.smtp.envelope import Envelope
from redrive.mail.smtp.errors import Dropped, Refused, Unreachable, Unsupported
from redrive.mail.smtp.pool import Pool
from redrive.mail.smtp.relay import Relay
from tests.mail.attempts import MODES, SHORT_S, delivered, mail, make_stale
from tests.mail.scripted_server import (
    Session,
    deliver,
    envelope,
    greet,
    obliging,
    scripted,
)
from tests.servers import reserved_port


@MODES
async def test_many_mails_share_a_few_connections_and_each_arrives_once(extensions: tuple[str, ...]) -> None:
    async with scripted(obliging(*extensions)) as server:
        pool = Pool(server.relay, SmtpSettings(connections=3))
        results = await asyncio.gather(*(pool.send(mail(number)) for number in range(100)))
        assert all(reply.accepted for (reply,) in results)
        assert delivered(server) == Counter(mail(number).content for number in range(100))
        assert len(server.sessions) <= 3
        assert pool.idle == pool.connections <= 3
        await pool.close()
        assert pool.connections == 0
        assert {session.lines[-1] for session in server.sessions} == {"QUIT"}


async def test_one_after_another_uses_one_connection() -> None:
    async with scripted(obliging("PIPELINING")) as server:
        pool = Pool(server.relay)
        for number in range(5):
            await pool.send(mail(number))
        assert len(server.sessions) == 1
        await pool.close()


async def test_a_connection_ends_after_its_number_of_messages() -> None:
    async with scripted(obliging("PIPELINING")) as server:
        pool = Pool(server.relay, SmtpSettings(connections=1, messages=4))
        await asyncio.gather(*(pool.send(mail(number)) for number in range(10)))
        await pool.close()
        assert [len(session.contents) for session in server.sessions] == [4, 4, 2]
        assert {session.lines[-1] for session in server.sessions} == {"QUIT"}


async def test_a_connection_ends_at_its_age() -> None:
    async with scripted(obliging()) as server:
        pool = Pool(server.relay, SmtpSettings(age_s=1e-6))
        for number in range(3):
            await pool.send(mail(number))
        await pool.close()
        assert len(server.sessions) == 3


async def test_an_idle_connection_is_probed_before_it_is_used() -> None:
    async with scripted(obliging("PIPELINING")) as server:
        pool = Pool(server.relay)
        await pool.send(mail())
        await make_stale(pool)
        await pool.send(mail())
        await pool.close()
        verbs = [line[:4] for line in server.sessions[0].lines]
        assert verbs == ["EHLO", "MAIL", "RCPT", "DATA", "RSET", "MAIL", "RCPT", "DATA", "QUIT"]


async def test_a_connection_that_stays_idle_says_goodbye() -> None:
    quit_seen = asyncio.Event()

    async def script(session: Session) -> None:
        await greet(session)
        await deliver(session)
        await session.command("QUIT", "221 bye")
        quit_seen.set()

    async with scripted(script) as server, asyncio.timeout(10):
        pool = Pool(server.relay, SmtpSettings(idle_s=SHORT_S))
        await pool.send(mail())
        await quit_seen.wait()
        await pool.close()


async def test_the_next_in_line_goes_along_with_a_final_dot() -> None:
    """The server answers the dot only after it has read the next envelope."""

    async def script(session: Session) -> None:
        await greet(session, "PIPELINING")
        await envelope(session)
        await session.content()
        line = await session.line()
        assert line.startswith("MAIL")
        session.say("250 taken\n250 sender ok")
        await session.command("RCPT", "250 ok")
        await session.command("DATA", "354 go")
        await session.content()
        session.say("250 taken")
        await session.client_gone()

    async with scripted(script) as server, asyncio.timeout(10):
        pool = Pool(server.relay, SmtpSettings(connections=1))
        results = await asyncio.gather(pool.send(mail(1)), pool.send(mail(2)))
        assert all(reply.accepted for (reply,) in results)
        await pool.close()


async def test_everyone_in_line_hears_that_nobody_is_there() -> None:
    with reserved_port() as port:
        pool = Pool(Relay.parse(f"smtp://127.0.0.1:{port}"), SmtpSettings(connections=2))
        results = await asyncio.gather(*(pool.send(mail()) for _ in range(20)), return_exceptions=True)
    assert {type(result) for result in results} == {Unreachable}
    assert pool.connections == 0
    await pool.close()


async def test_a_server_that_takes_few_connections_still_gets_everything() -> None:
    async def busy(session: Session) -> None:
        session.say("421 4.7.0 too many connections")

    async with scripted(obliging("PIPELINING"), busy) as server:
        pool = Pool(server.relay, SmtpSettings(connections=5, messages=1_000))
        await pool.send(mail())
        results = await asyncio.gather(*(pool.send(mail(number)) for number in range(50)))
        assert all(reply.accepted for (reply,) in results)
        await pool.close()


async def test_a_refused_greeting_is_told_when_no_connection_works() -> None:
    async def closed(session: Session) -> None:
        session.say("554 5.7.1 you are listed")
        await session.client_gone()

    async with scripted(closed) as server:
        pool = Pool(server.relay)
        with pytest.raises(Refused):
            await pool.send(mail())
        await pool.close()


async def test_a_mail_that_cannot_be_carried_does_not_hold_up_the_line() -> None:
    async with scripted(obliging("PIPELINING")) as server:
        pool = Pool(server.relay, SmtpSettings(connections=1))
        wide = Envelope("a@b", ("c@d",), b"\xc3\xa9\r\n")
        results = await asyncio.gather(
            *(pool.send(each) for each in (wide, mail(1), wide, wide, mail(2), wide)), return_exceptions=True
        )
        assert [isinstance(result, Unsupported) for result in results] == [
            True,
            False,
            True,
            True,
            False,
            True,
        ]
        assert pool.idle == 1
        await pool.close()


async def test_closing_lets_what_was_taken_finish_and_takes_no_more() -> None:
    async with scripted(obliging("PIPELINING")) as server:
        pool = Pool(server.relay, SmtpSettings(connections=2))
        sends = [asyncio.create_task(pool.send(mail(number))) for number in range(20)]
        await asyncio.sleep(0)
        await pool.close()
        assert all([(await send)[0].accepted for send in sends])
        with pytest.raises(Dropped, match="closed"):
            await pool.send(mail())


async def test_closing_does_not_wait_for_ever() -> None:
    asked = asyncio.Event()

    async def stuck(session: Session) -> None:
        await greet(session)
        await envelope(session)
        await session.content()
        asked.set()
        await session.client_gone()

    async with scripted(stuck) as server:
        pool = Pool(server.relay, SmtpSettings(connections=1))
        sends = [asyncio.create_task(pool.send(mail(number))) for number in range(3)]
        await asked.wait()
        await pool.close(drain_s=0.01)
        results = await asyncio.gather(*sends, return_exceptions=True)
        assert all(isinstance(result, Dropped) for result in results)
        assert [result.after_dot for result in results if isinstance(result, Dropped)] == [True, False, False]
        assert pool.connections == 0
