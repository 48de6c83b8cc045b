"""The pool: reuse, bounds, fairness, probes, the one repeat, draining, and cancellation at any point."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from redrive.mail.envelope import Envelope
from redrive.mail.pool import Pool
from redrive.mail.relay import Relay
from redrive.mail.smtp_errors import Dropped, Phase, Refused, TimedOut, Unreachable, Unsupported
from redrive.mail.smtp_settings import SmtpPoolSettings, SmtpTimeouts
from tests.mail.scripted_server import (
    Script,
    ScriptedServer,
    Session,
    deliver,
    envelope,
    greet,
    obliging,
    scripted,
)
from tests.servers import free_port

MODES = pytest.mark.parametrize("extensions", [(), ("PIPELINING",)], ids=["lock-step", "pipelining"])


def mail(number: int = 0) -> Envelope:
    return Envelope("a@example.org", ("b@example.org",), b"Subject: %d\r\n\r\nhello\r\n" % number)


def delivered(server: ScriptedServer) -> Counter[bytes]:
    return Counter(content for session in server.sessions for content in session.contents)


@MODES
async def test_many_mails_share_a_few_connections_and_each_arrives_once(extensions: tuple[str, ...]) -> None:
    async with scripted(obliging(*extensions)) as server:
        pool = Pool(server.relay, SmtpPoolSettings(connections=3))
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
        pool = Pool(server.relay, SmtpPoolSettings(connections=1, messages=4))
        await asyncio.gather(*(pool.send(mail(number)) for number in range(10)))
        await pool.close()
        assert [len(session.contents) for session in server.sessions] == [4, 4, 2]
        assert {session.lines[-1] for session in server.sessions} == {"QUIT"}


async def test_a_connection_ends_at_its_age() -> None:
    async with scripted(obliging()) as server:
        pool = Pool(server.relay, SmtpPoolSettings(age_s=1e-6))
        for number in range(3):
            await pool.send(mail(number))
        await pool.close()
        assert len(server.sessions) == 3


async def test_an_idle_connection_is_probed_before_it_is_used() -> None:
    async with scripted(obliging("PIPELINING")) as server:
        pool = Pool(server.relay, SmtpPoolSettings(probe_after_s=1e-6))
        await pool.send(mail())
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
        pool = Pool(server.relay, SmtpPoolSettings(idle_s=0.01))
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
        pool = Pool(server.relay, SmtpPoolSettings(connections=1))
        results = await asyncio.gather(pool.send(mail(1)), pool.send(mail(2)))
        assert all(reply.accepted for (reply,) in results)
        await pool.close()


def one_mail_then(drop_after: str) -> Script:
    """Takes one mail, then hangs up on the second at some point."""

    async def script(session: Session) -> None:
        await greet(session, "PIPELINING")
        await deliver(session)
        if drop_after == "idle":
            await session.line()
        elif drop_after == "reply":
            await session.command("MAIL", "250 ok")
            await session.writer.drain()
        elif drop_after == "tired":
            await session.command("MAIL", "421 4.7.0 too many messages in this session")
            await session.writer.drain()
        elif drop_after == "dot":
            await envelope(session)
            await session.content()

    return script


@pytest.mark.parametrize("drop_after", ["idle", "tired"])
async def test_a_drop_on_a_reused_connection_is_repeated_once_on_a_fresh_one(drop_after: str) -> None:
    async with scripted(one_mail_then(drop_after), obliging()) as server:
        pool = Pool(server.relay)
        await pool.send(mail(1))
        (reply,) = await pool.send(mail(2))
        assert reply.accepted
        assert delivered(server) == Counter([mail(1).content, mail(2).content])
        await pool.close()


async def test_the_repeat_is_not_repeated() -> None:
    async def drops(session: Session) -> None:
        await greet(session)
        await session.line()

    async with scripted(one_mail_then("idle"), drops) as server:
        pool = Pool(server.relay)
        await pool.send(mail(1))
        with pytest.raises(Dropped) as caught:
            await pool.send(mail(2))
        assert not caught.value.after_dot
        assert len(server.sessions) == 2
        await pool.close()


@pytest.mark.parametrize(
    ("drop_after", "phase", "after_dot"), [("reply", Phase.RCPT, False), ("dot", Phase.FINAL, True)]
)
async def test_what_was_answered_or_had_its_dot_is_not_repeated(
    drop_after: str, phase: Phase, after_dot: bool
) -> None:
    async with scripted(one_mail_then(drop_after), obliging()) as server:
        pool = Pool(server.relay)
        await pool.send(mail(1))
        with pytest.raises(Dropped) as caught:
            await pool.send(mail(2))
        assert (caught.value.phase, caught.value.after_dot) == (phase, after_dot)
        assert len(server.sessions) == 1
        await pool.close()


async def test_a_drop_on_a_first_use_is_not_repeated() -> None:
    async def drops(session: Session) -> None:
        await greet(session)
        await session.line()

    async with scripted(drops, obliging()) as server:
        pool = Pool(server.relay)
        with pytest.raises(Dropped):
            await pool.send(mail())
        assert len(server.sessions) == 1
        await pool.close()


async def test_a_probe_that_is_not_answered_leads_to_a_fresh_connection() -> None:
    async def mute(session: Session) -> None:
        await greet(session)
        await deliver(session)
        await session.client_gone()

    async with scripted(mute, obliging()) as server:
        pool = Pool(server.relay, SmtpPoolSettings(probe_after_s=1e-6), SmtpTimeouts(probe_s=0.05))
        await pool.send(mail(1))
        assert (await pool.send(mail(2)))[0].accepted
        assert len(server.sessions) == 2
        await pool.close()


async def test_a_timeout_after_the_dot_is_uncertain_and_its_follower_goes_on_elsewhere() -> None:
    async def stuck(session: Session) -> None:
        await greet(session, "PIPELINING")
        await envelope(session)
        await session.client_gone()

    async with scripted(stuck, obliging()) as server:
        pool = Pool(server.relay, SmtpPoolSettings(connections=1), SmtpTimeouts(final_s=0.05))
        first, second = await asyncio.gather(pool.send(mail(1)), pool.send(mail(2)), return_exceptions=True)
        assert isinstance(first, TimedOut)
        assert first.after_dot
        assert not isinstance(second, BaseException)
        assert second[0].accepted
        await pool.close()


async def test_everyone_in_line_hears_that_nobody_is_there() -> None:
    pool = Pool(Relay.parse(f"smtp://127.0.0.1:{free_port()}"), SmtpPoolSettings(connections=2))
    results = await asyncio.gather(*(pool.send(mail()) for _ in range(20)), return_exceptions=True)
    assert {type(result) for result in results} == {Unreachable}
    assert pool.connections == 0
    await pool.close()


async def test_a_server_that_takes_few_connections_still_gets_everything() -> None:
    async def busy(session: Session) -> None:
        session.say("421 4.7.0 too many connections")

    async with scripted(obliging("PIPELINING"), busy) as server:
        pool = Pool(server.relay, SmtpPoolSettings(connections=5, messages=1_000))
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
        pool = Pool(server.relay, SmtpPoolSettings(connections=1))
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
        pool = Pool(server.relay, SmtpPoolSettings(connections=2))
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
        pool = Pool(server.relay, SmtpPoolSettings(connections=1))
        sends = [asyncio.create_task(pool.send(mail(number))) for number in range(3)]
        await asked.wait()
        await pool.close(drain_s=0.01)
        results = await asyncio.gather(*sends, return_exceptions=True)
        assert all(isinstance(result, Dropped) for result in results)
        assert [result.after_dot for result in results if isinstance(result, Dropped)] == [True, False, False]
        assert pool.connections == 0


@MODES
@pytest.mark.parametrize("others", [0, 2])
async def test_cancelled_anywhere_leaves_no_half_used_connection(
    extensions: tuple[str, ...], others: int
) -> None:
    """A send is cancelled after each possible number of turns of the loop; whatever shares the pool with
    it, and whatever comes next, arrives exactly once and gets its own answers."""
    finished = False
    for turns in range(200):
        async with scripted(obliging(*extensions)) as server:
            pool = Pool(server.relay, SmtpPoolSettings(connections=1))
            victim = asyncio.create_task(pool.send(mail(1_000)))
            sends = [asyncio.create_task(pool.send(mail(number))) for number in range(others)]
            for _ in range(turns):
                await asyncio.sleep(0)
            finished = victim.done()
            victim.cancel()
            await asyncio.gather(victim, return_exceptions=True)
            sends.append(asyncio.create_task(pool.send(mail(others))))
            for send in sends:
                assert (await send)[0].accepted
            counts = delivered(server)
            assert all(counts[mail(number).content] == 1 for number in range(others + 1))
            assert pool.connections == pool.idle == 1
            await pool.close()
        if finished:
            break
    assert finished, "no number of turns was enough: the test did not reach the end"


async def test_a_cancelled_follower_does_not_make_its_leader_uncertain() -> None:
    answer = asyncio.Event()
    coupled = asyncio.Event()

    async def script(session: Session) -> None:
        await greet(session, "PIPELINING")
        await envelope(session)
        await session.content()
        await session.line()
        coupled.set()
        await answer.wait()
        session.say("250 taken")
        await session.client_gone()

    async with scripted(script, obliging()) as server:
        pool = Pool(server.relay, SmtpPoolSettings(connections=1))
        leader, follower = (asyncio.create_task(pool.send(mail(number))) for number in range(2))
        await coupled.wait()
        follower.cancel()
        await asyncio.gather(follower, return_exceptions=True)
        answer.set()
        assert (await leader)[0].accepted
        assert (await pool.send(mail(2)))[0].accepted
        assert len(server.sessions) == 2
        await pool.close()
