"""What each local part does to a client on a real socket."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from redrive.mailbox import Mailbox
from redrive.mailbox.behaviours import Point
from tests.mailbox.clients import CONTENT, ManualTiming, content, raw_client


@pytest.fixture
def timing() -> ManualTiming:
    return ManualTiming()


@pytest.fixture
async def mailbox(timing: ManualTiming) -> AsyncIterator[Mailbox]:
    async with Mailbox(timing=timing) as mailbox:
        yield mailbox


@pytest.mark.parametrize("local", ["ok", "ok+order7", "OK", "someone.else", "reply-250"])
async def test_ok_and_what_is_unknown_is_accepted_and_kept(mailbox: Mailbox, local: str) -> None:
    async with raw_client(mailbox) as client:
        assert await client.deliver(f"{local}@example.org") == "250 2.0.0 kept as 1"
    mail = mailbox.received[0]
    assert (mail.sender, mail.recipients, mail.content) == (
        "a@example.org",
        (f"{local}@example.org",),
        CONTENT,
    )
    attempt = mailbox.attempts[0]
    assert (attempt.stage, attempt.code, attempt.message_id) == (Point.FINAL, 250, "<1@example.org>")


@pytest.mark.parametrize(
    ("local", "reply"),
    [
        ("reply-450", "450 simulated reply"),
        ("reply-550-5.1.1", "550 5.1.1 simulated reply"),
        ("full", "452 4.2.2 mailbox full"),
        ("utf8", "550 5.1.1 Empfänger unbekannt: 宛先不明 ✉"),
        ("multiline-451", "451-simulated reply\n451-of several lines\n451 and this is the last"),
    ],
)
async def test_a_recipient_is_refused_and_the_session_goes_on(
    mailbox: Mailbox, local: str, reply: str
) -> None:
    async with raw_client(mailbox) as client:
        assert (await client.envelope(f"{local}@example.org"))[1:] == [reply, "554 5.5.1 no valid recipients"]
        assert await client.say("RSET") == "250 2.0.0 ok"
        assert (await client.deliver("ok@example.org")).startswith("250")
    first, second = mailbox.attempts
    assert (first.recipient, first.stage, first.code) == (
        f"{local}@example.org",
        Point.RECIPIENT,
        int(reply[:3]),
    )
    assert (second.recipient, second.code) == ("ok@example.org", 250)
    assert mailbox.total == 1


async def test_421_closes_the_connection(mailbox: Mailbox) -> None:
    async with raw_client(mailbox) as client:
        client.write(b"MAIL FROM:<>\r\nRCPT TO:<reply-421-4.3.2@x>\r\nDATA\r\n")
        assert await client.replies(3) == ["250 2.1.0 sender ok", "421 4.3.2 simulated reply", ""]


async def test_a_garbled_line_comes_in_the_place_of_a_reply(mailbox: Mailbox) -> None:
    async with raw_client(mailbox) as client:
        assert "?? not a reply ??" in (await client.envelope("garbage@x"))[1]
    assert (mailbox.attempts[0].code, mailbox.attempts[0].reply) == (None, "(a line that is no reply)")


async def test_content_is_refused_after_the_dot_and_not_kept(mailbox: Mailbox) -> None:
    async with raw_client(mailbox) as client:
        assert await client.deliver("data-554-5.7.1@x") == "554 5.7.1 simulated reply"
    assert (mailbox.total, mailbox.attempts[0].code, mailbox.attempts[0].stage) == (0, 554, Point.FINAL)


async def test_a_sender_is_refused_at_mail(mailbox: Mailbox) -> None:
    async with raw_client(mailbox) as client:
        answers = await client.envelope("ok@x", sender="mail-550-5.1.8@example.org")
        assert answers == ["550 5.1.8 simulated reply", "503 5.5.1 MAIL first", "503 5.5.1 MAIL first"]
    attempt = mailbox.attempts[0]
    assert (attempt.sender, attempt.recipient, attempt.stage) == (
        "mail-550-5.1.8@example.org",
        "",
        Point.MAIL,
    )


async def test_other_local_parts_mean_nothing_as_a_sender(mailbox: Mailbox) -> None:
    async with raw_client(mailbox) as client:
        assert (await client.deliver("ok@x", sender="reply-550@example.org")).startswith("250")
        assert (await client.deliver("mail-550@x")).startswith("250")


async def test_a_mail_fails_twice_and_then_goes_through(mailbox: Mailbox) -> None:
    async with raw_client(mailbox) as client:
        codes = [(await client.deliver("fail-2-then-ok+7@x"))[:3] for _ in range(3)]
        other = [(await client.deliver("fail-2-then-ok+7@x", content("2@x")))[:3] for _ in range(3)]
        tagged = (await client.deliver("fail-2-then-ok+8@x"))[:3]
    assert codes == other == ["451", "451", "250"]
    assert tagged == "451"
    assert [attempt.code for attempt in mailbox.attempts[:3]] == [451, 451, 250]


async def test_mails_without_a_message_id_are_told_by_their_sender(mailbox: Mailbox) -> None:
    body = b"Subject: none\r\n\r\nx\r\n"
    async with raw_client(mailbox) as client:
        first = [(await client.deliver("fail-1-then-ok@x", body, "a@x"))[:3] for _ in range(2)]
        second = (await client.deliver("fail-1-then-ok@x", body, "b@x"))[:3]
    assert first == ["451", "250"]
    assert second == "451"


async def test_too_large_content_is_refused(mailbox: Mailbox) -> None:
    async with raw_client(mailbox) as client:
        assert (await client.deliver("toobig-1k@x", b"x\r\n" * 341)).startswith("250")
        assert (await client.deliver("toobig-1k@x", b"x\r\n" * 342)).startswith("552 5.3.4")


@pytest.mark.parametrize(
    ("local", "seen"), [("drop-before-data", ["", ""]), ("drop-at-data", ["250 2.1.5 recipient ok", ""])]
)
async def test_the_connection_is_dropped_before_any_content(
    mailbox: Mailbox, local: str, seen: list[str]
) -> None:
    async with raw_client(mailbox) as client:
        client.write(f"MAIL FROM:<a@x>\r\nRCPT TO:<{local}@x>\r\nDATA\r\n".encode())
        assert await client.replies(3) == ["250 2.1.0 sender ok", *seen]
    assert (mailbox.total, mailbox.attempts[0].code) == (0, None)


async def test_the_connection_is_dropped_in_mid_content(mailbox: Mailbox) -> None:
    async with raw_client(mailbox) as client:
        assert (await client.envelope("drop-mid-data@x"))[2].startswith("354")
        client.write(b"Subject: half")
        assert await client.reply() == ""
    assert (mailbox.total, mailbox.attempts[0].stage) == (0, Point.CONTENT)


async def test_a_drop_after_the_dot_keeps_the_mail_and_the_next_try_is_a_duplicate(mailbox: Mailbox) -> None:
    async with raw_client(mailbox) as client:
        assert await client.deliver("drop-after-dot@x") == ""
    assert (mailbox.total, mailbox.attempts[0].code, mailbox.attempts[0].reply) == (
        1,
        None,
        "(connection closed)",
    )
    async with raw_client(mailbox) as client:
        assert (await client.deliver("drop-after-dot@x")).startswith("250")
    assert [mail.duplicate_of for mail in mailbox.received] == [None, 1]
    assert mailbox.duplicates == 1


async def test_a_mail_lost_after_the_dot_is_not_kept_and_the_next_try_is_no_duplicate(
    mailbox: Mailbox,
) -> None:
    async with raw_client(mailbox) as client:
        assert await client.deliver("drop-after-dot-lost@x") == ""
    assert mailbox.total == 0
    async with raw_client(mailbox) as client:
        assert (await client.deliver("drop-after-dot-lost@x")).startswith("250")
    assert [mail.duplicate_of for mail in mailbox.received] == [None]


async def test_a_slow_recipient_is_answered_after_its_delay(mailbox: Mailbox, timing: ManualTiming) -> None:
    async with raw_client(mailbox) as client:
        client.write(b"MAIL FROM:<a@x>\r\nRCPT TO:<slow-3s@x>\r\nDATA\r\n")
        assert (await client.reply()).startswith("250")
        await timing.until_armed(3.0)
        answer = asyncio.create_task(client.reply())
        timing.advance(2.9)
        client.write(b"")
        assert not answer.done()
        timing.advance(0.1)
        assert await answer == "250 2.1.5 recipient ok"
        assert (await client.reply()).startswith("354")
        client.write(CONTENT + b".\r\n")
        assert (await client.reply()).startswith("250")


async def test_a_slow_final_answer_comes_after_the_mail_was_kept(
    mailbox: Mailbox, timing: ManualTiming
) -> None:
    async with raw_client(mailbox) as client:
        await client.envelope("slow-after-dot-500ms@x")
        client.write(CONTENT + b".\r\nNOOP\r\n")
        await timing.until_armed(0.5)
        assert mailbox.total == 1
        timing.advance(0.5)
        assert await client.replies(2) == ["250 2.0.0 kept as 1", "250 2.0.0 ok"]


async def test_a_greylisted_address_opens_after_its_delay(mailbox: Mailbox, timing: ManualTiming) -> None:
    async def answer(sender: str) -> str:
        async with raw_client(mailbox) as client:
            return (await client.envelope("greylist-2s@x", sender))[1][:9]

    assert await answer("a@x") == "450 4.2.0"
    timing.advance(1.9)
    assert await answer("a@x") == "450 4.2.0"
    timing.advance(0.2)
    assert await answer("a@x") == "250 2.1.5"
    assert await answer("b@x") == "450 4.2.0"


async def test_a_rate_is_kept_for_each_address(mailbox: Mailbox, timing: ManualTiming) -> None:
    async with raw_client(mailbox) as client:
        await client.say("MAIL FROM:<a@x>")

        async def answers(local: str, count: int) -> list[str]:
            return [(await client.say(f"RCPT TO:<{local}@x>"))[:9] for _ in range(count)]

        assert await answers("rate-2-per-s", 3) == ["250 2.1.5", "250 2.1.5", "451 4.7.0"]
        assert await answers("rate-2-per-s+other", 1) == ["250 2.1.5"]
        timing.advance(1.0)
        assert await answers("rate-2-per-s", 3) == ["250 2.1.5", "250 2.1.5", "451 4.7.0"]
        assert await answers("rate-1-per-min-421", 2) == ["250 2.1.5", "421 4.7.0"]
        assert await client.reply() == ""


@pytest.mark.parametrize(("local", "kept"), [("hang", 0), ("hang-after-dot", 1)])
async def test_a_hanging_session_says_nothing_and_is_closed_after_15_minutes(
    mailbox: Mailbox, timing: ManualTiming, local: str, kept: int
) -> None:
    async with raw_client(mailbox) as client:
        client.write(f"MAIL FROM:<a@x>\r\nRCPT TO:<{local}@x>\r\nDATA\r\n".encode())
        assert (await client.reply()).startswith("250")
        if kept:
            assert (await client.replies(2))[1].startswith("354")
            client.write(CONTENT + b".\r\n")
            await mailbox.wait_for(1)
        answer = asyncio.create_task(client.reply())
        await mailbox.wait_for_attempts(1)
        timing.advance(899)
        assert not answer.done()
        timing.advance(1)
        assert await answer == ""
    assert (mailbox.total, mailbox.attempts[0].reply) == (kept, "(no answer)")


async def test_each_recipient_of_a_mail_has_its_own_answer(mailbox: Mailbox) -> None:
    async with raw_client(mailbox) as client:
        client.write(
            b"MAIL FROM:<a@x>\r\nRCPT TO:<ok@x>\r\nRCPT TO:<reply-550@x>\r\nRCPT TO:<other@x>\r\nDATA\r\n"
        )
        assert [answer[:3] for answer in await client.replies(5)] == ["250", "250", "550", "250", "354"]
        client.write(CONTENT + b".\r\n")
        await client.reply()
    assert mailbox.received[0].recipients == ("ok@x", "other@x")
    assert [(attempt.recipient, attempt.code) for attempt in mailbox.attempts] == [
        ("reply-550@x", 550),
        ("ok@x", 250),
        ("other@x", 250),
    ]


async def test_of_what_recipients_ask_for_after_rcpt_the_first_wish_counts(mailbox: Mailbox) -> None:
    async with raw_client(mailbox) as client:
        client.write(b"MAIL FROM:<a@x>\r\nRCPT TO:<data-554@x>\r\nRCPT TO:<data-451@x>\r\nDATA\r\n")
        await client.replies(4)
        client.write(CONTENT + b".\r\n")
        assert await client.reply() == "554 simulated reply"


async def test_a_client_that_goes_away_leaves_the_answer_to_its_rcpt(mailbox: Mailbox) -> None:
    async with raw_client(mailbox) as client:
        await client.envelope("ok@x")
        client.write(b"Subject: half")
    await mailbox.wait_for_attempts(1)
    assert (mailbox.total, mailbox.attempts[0].stage, mailbox.attempts[0].code) == (0, Point.RECIPIENT, 250)
