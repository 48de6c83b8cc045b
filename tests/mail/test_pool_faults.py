"""The pool when connections die or callers give up: the one repeat, and cancellation at any point."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from redrive.core.settings import SmtpSettings
from redrive.mail.smtp.errors import Dropped, SmtpError, SmtpPhase, TimedOut
from redrive.mail.smtp.pool import Pool
from tests.mail.attempts import MODES, SHORT_S, delivered, mail, make_stale
from tests.mail.scripted_server import (
    Script,
    Session,
    deliver,
    envelope,
    greet,
    obliging,
    scripted,
)


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
    ("drop_after", "phase", "after_dot"), [("reply", SmtpPhase.RCPT, False), ("dot", SmtpPhase.FINAL, True)]
)
async def test_what_was_answered_or_had_its_dot_is_not_repeated(
    drop_after: str, phase: SmtpPhase, after_dot: bool
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


async def test_a_server_that_leaves_right_after_its_welcome_takes_no_place_in_the_pool() -> None:
    async def leaves(session: Session) -> None:
        session.say("220 hello")
        await session.line()
        session.say("250 hello\n421 4.3.2 and goodbye")

    async with scripted(leaves, leaves, obliging()) as server:
        pool = Pool(server.relay, SmtpSettings(connections=1))
        for _ in range(2):
            with pytest.raises(SmtpError):
                await pool.send(mail())
            assert pool.connections == 0
        assert (await pool.send(mail()))[0].accepted
        await pool.close()


async def test_a_probe_that_is_not_answered_leads_to_a_fresh_connection() -> None:
    async def mute(session: Session) -> None:
        await greet(session)
        await deliver(session)
        await session.client_gone()

    async with scripted(mute, obliging()) as server:
        pool = Pool(server.relay, SmtpSettings(probe_s=SHORT_S))
        await pool.send(mail(1))
        await make_stale(pool)
        assert (await pool.send(mail(2)))[0].accepted
        assert len(server.sessions) == 2
        await pool.close()


async def test_a_timeout_after_the_dot_is_uncertain_and_its_follower_goes_on_elsewhere() -> None:
    async def stuck(session: Session) -> None:
        await greet(session, "PIPELINING")
        await envelope(session)
        await session.client_gone()

    async with scripted(stuck, obliging()) as server:
        pool = Pool(server.relay, SmtpSettings(connections=1, final_s=SHORT_S))
        first, second = await asyncio.gather(pool.send(mail(1)), pool.send(mail(2)), return_exceptions=True)
        assert isinstance(first, TimedOut)
        assert first.after_dot
        assert not isinstance(second, BaseException)
        assert second[0].accepted
        await pool.close()


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
            pool = Pool(server.relay, SmtpSettings(connections=1))
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
        pool = Pool(server.relay, SmtpSettings(connections=1))
        leader, follower = (asyncio.create_task(pool.send(mail(number))) for number in range(2))
        await coupled.wait()
        follower.cancel()
        await asyncio.gather(follower, return_exceptions=True)
        answer.set()
        assert (await leader)[0].accepted
        assert (await pool.send(mail(2)))[0].accepted
        assert len(server.sessions) == 2
        await pool.close()
