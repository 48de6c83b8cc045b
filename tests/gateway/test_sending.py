"""Mails through the gateway into a real mailbox: each recipient has its own fate."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from email.message import EmailMessage
from pathlib import Path
from random import Random

import pytest

from redrive import InvalidMessage, Redrive
from redrive.core.lanes import LaneState
from redrive.core.message import Entry, Message
from redrive.core.ports import Status
from redrive.core.verdict import Reason
from redrive.engine.ids import new_id
from redrive.mail.desk import RecipientState
from redrive.mail.stored import QUEUE
from redrive.mail.writing.mail import InvalidMail, Mail
from redrive.mailbox import Mailbox, MailboxSettings, MailboxUser
from redrive.office.alerts.watch import AlertWatch
from redrive.office.audit import Actor
from redrive.testing import Clock, dead_letters, run_until_idle
from tests.conformance.makers import keys
from tests.waiting import wait_until

from .conftest import make_gateway


def mail(*to: str, subject: str = "Hello") -> Mail:
    return Mail(from_="shop@acme.example", to=to, subject=subject, text="Your order is on its way.\n")


async def _states(app: Redrive, mail_id: str) -> dict[str, RecipientState]:
    status = await app.mail.find(mail_id)
    assert status is not None
    return {one.address: one.state for one in status.recipients}


async def test_a_mail_arrives_as_it_was_written(gateway: Redrive, inbox: Mailbox) -> None:
    receipt = await gateway.mail.submit(mail("ok@example.org"), tenant="acme")
    assert await _states(gateway, receipt.id) == {"ok@example.org": RecipientState.QUEUED}
    assert await run_until_idle(gateway) == {"done": 1}
    (received,) = inbox.received
    assert received.subject == "Hello"
    assert received.message_id == f"<{receipt.id}@acme.example>"
    assert await _states(gateway, receipt.id) == {"ok@example.org": RecipientState.SENT}


async def test_a_mail_to_many_is_stored_once_and_each_recipient_has_its_own_fate(
    gateway: Redrive, inbox: Mailbox
) -> None:
    recipients = ["ok@example.org", "reply-550-5.1.1@example.org", "fail-1-then-ok@example.org"]
    receipt = await gateway.mail.submit(mail(*recipients), tenant="acme")
    assert set((await _states(gateway, receipt.id)).values()) == {RecipientState.QUEUED}
    await run_until_idle(gateway)
    assert await _states(gateway, receipt.id) == {
        "ok@example.org": RecipientState.SENT,
        "reply-550-5.1.1@example.org": RecipientState.FAILED,
        "fail-1-then-ok@example.org": RecipientState.RETRYING,
    }
    await run_until_idle(gateway, clock=Clock(gateway))
    assert {one.message_id for one in inbox.received} == {f"<{receipt.id}@acme.example>"}
    assert sorted(to for one in inbox.received for to in one.recipients) == [
        "fail-1-then-ok@example.org",
        "ok@example.org",
    ]
    (letter,) = await dead_letters(gateway)
    assert (letter.reason, letter.message.headers["to"]) == (Reason.BOUNCED, recipients[1])


async def test_the_content_stays_while_a_recipient_is_dead_and_comes_back_with_a_redrive(
    gateway: Redrive, inbox: Mailbox
) -> None:
    receipt = await gateway.mail.submit(mail("ok@example.org", "fail-3-then-ok@example.org"), tenant="acme")
    await run_until_idle(gateway, clock=Clock(gateway))
    (letter,) = await dead_letters(gateway)
    assert letter.reason is Reason.EXHAUSTED
    await gateway.store.redrive(QUEUE, keys([letter.message.id]), actor="ana")
    assert await run_until_idle(gateway) == {"done": 1}
    assert set((await _states(gateway, receipt.id)).values()) == {RecipientState.SENT}
    parent = await gateway.store.get(receipt.id)
    assert parent is not None
    assert parent.message.body == b""


async def test_a_drop_after_the_dot_is_uncertain_and_retried_under_the_same_message_id(
    gateway: Redrive, inbox: Mailbox
) -> None:
    receipt = await gateway.mail.submit(mail("drop-after-dot@example.org"), tenant="acme")
    await run_until_idle(gateway, clock=Clock(gateway))
    account = await gateway.store.get(receipt.id)
    assert account is not None
    assert [failure.kind for failure in account.failures] == ["uncertain"]
    assert {one.message_id for one in inbox.received} == {f"<{receipt.id}@acme.example>"}


async def test_uncertain_mails_are_buried_when_the_queue_says_so(tmp_path: Path, inbox: Mailbox) -> None:
    flags = {f"queues.{QUEUE}.uncertain": "bury"}
    async with make_gateway(tmp_path, inbox.url, **flags) as app:
        receipt = await app.mail.submit(mail("drop-after-dot@example.org"), tenant="acme")
        assert await run_until_idle(app) == {"buried": 1}
        assert await _states(app, receipt.id) == {"drop-after-dot@example.org": RecipientState.UNCERTAIN}


@pytest.mark.parametrize("place", ["drop-before-data", "drop-at-data"])
async def test_a_drop_before_the_dot_is_a_temporary_failure(gateway: Redrive, place: str) -> None:
    receipt = await gateway.mail.submit(mail(f"{place}@example.org"), tenant="acme")
    await run_until_idle(gateway)
    account = await gateway.store.get(receipt.id)
    assert account is not None
    assert [failure.kind for failure in account.failures] == ["temporary"]


async def test_a_wrong_password_holds_the_lane_and_buries_nothing(tmp_path: Path) -> None:
    settings = MailboxSettings(require_auth=MailboxUser("gateway", "new"))
    async with Mailbox(settings=settings) as inbox:
        relay = inbox.url.replace("smtp://", "smtp://gateway:old@")
        async with make_gateway(tmp_path, relay) as app:
            for number in range(5):
                await app.mail.submit(mail(f"ok+{number}@example.org"), tenant="acme")
            await run_until_idle(app)
            lane = await app.store.lane(QUEUE, "acme")
            assert lane is not None
            assert (lane.state, lane.waiting, lane.dead) == (LaneState.HELD, 5, 0)
            assert "535" in (lane.held_reason or "")
            assert "old" not in (lane.held_reason or "")


async def test_a_relay_that_is_down_costs_no_attempts(tmp_path: Path) -> None:
    async with make_gateway(tmp_path, "smtp://127.0.0.1:1") as app:
        receipt = await app.mail.submit(mail("ok@example.org"), tenant="acme")
        assert await run_until_idle(app) == {"released": 1}
        account = await app.store.get(receipt.id)
        assert account is not None
        assert (account.progress.attempts, account.progress.due_at > app.store.now()) == (0, True)


async def test_a_worker_whose_relay_is_down_says_so_and_an_alert_tells_of_it(tmp_path: Path) -> None:
    async with make_gateway(tmp_path, "smtp://127.0.0.1:1") as app:
        await app.mail.submit(mail("ok@example.org"), tenant="acme")
        running = asyncio.create_task(app.run(signals=False))
        watch = AlertWatch(app.office)

        async def told() -> bool:
            await watch.look()
            found = await app.office.acting(Actor("ana", "test")).alerts.firing()
            return [one.alert for one in found] == ["relay_lost"]

        await wait_until(told, 30, "the lost relay is an alert")
        running.cancel()
        await asyncio.wait([running])


async def test_mails_that_wait_for_a_relay_come_back_spread_and_the_log_says_it_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "redrive")
    async with make_gateway(tmp_path, "smtp://127.0.0.1:1") as app:
        receipts = [
            await app.mail.submit(mail(f"ok+{number}@example.org"), tenant="acme") for number in range(60)
        ]
        assert await run_until_idle(app) == {"released": 60}
        waiting = await app.store.accounts(QUEUE, [receipt.id for receipt in receipts])
        assert len({account.progress.due_at for account in waiting}) > 30
    told = [line.getMessage() for line in caplog.records if "Worker" not in line.getMessage()]
    assert [line.partition(":")[0] for line in told] == ["Mail relay cannot be reached, mails wait"]


async def test_mails_that_the_server_wants_slower_come_back_spread(
    gateway: Redrive, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("random.random", Random(7).random)  # noqa: S311 - by chance, two may come together
    receipts = [
        await gateway.mail.submit(mail(f"reply-450-4.2.2+{number}@example.org"), tenant="acme")
        for number in range(40)
    ]
    await run_until_idle(gateway)
    accounts = await gateway.store.accounts(QUEUE, [receipt.id for receipt in receipts])
    assert len({account.failures[-1].delay_ms for account in accounts}) == 40
    due = [account.progress.due_at for account in accounts]
    assert max(due) - min(due) > 60_000


async def test_an_email_message_is_accepted_as_it_is_and_its_bcc_is_hidden(
    gateway: Redrive, inbox: Mailbox
) -> None:
    message = EmailMessage()
    message["From"], message["To"] = "Shop <shop@acme.example>", "ok@example.org"
    message["Bcc"], message["Subject"] = "ok+hidden@example.org", "Grüße"
    message.set_content("Hallo")
    await gateway.mail.submit(message, tenant="acme")
    await run_until_idle(gateway)
    assert sorted(to for one in inbox.received for to in one.recipients) == [
        "ok+hidden@example.org",
        "ok@example.org",
    ]
    assert all(b"hidden" not in one.content for one in inbox.received)


async def test_an_idempotency_key_accepts_a_mail_once(gateway: Redrive, inbox: Mailbox) -> None:
    first = await gateway.mail.submit(mail("ok@example.org"), tenant="acme", dedupe="order-7")
    again = await gateway.mail.submit(mail("ok@example.org"), tenant="acme", dedupe="order-7")
    assert (again.id, again.status) == (first.id, Status.DUPLICATE)
    await run_until_idle(gateway)
    assert len(inbox.received) == 1


async def test_of_a_bad_mail_nothing_is_written_and_all_that_is_wrong_is_listed(gateway: Redrive) -> None:
    bad = Mail(from_="shop@acme.example\r\nBcc: x@y.z", to=["a@b\n"], text="x")
    with pytest.raises(InvalidMail) as caught:
        await gateway.mail.submit(bad, tenant="acme")
    assert {problem.field for problem in caught.value.problems} == {"from", "to[0]"}
    assert await gateway.store.queues() == []


async def test_a_one_time_code_that_is_too_old_is_not_sent(gateway: Redrive, inbox: Mailbox) -> None:
    await gateway.mail.submit(mail("ok@example.org"), tenant="acme", ttl=timedelta(minutes=5))
    Clock(gateway).advance(timedelta(minutes=6))
    await run_until_idle(gateway)
    assert [letter.reason for letter in await dead_letters(gateway)] == [Reason.EXPIRED]
    assert len(inbox.received) == 0


async def test_a_child_without_its_parent_is_refused_alone(gateway: Redrive) -> None:
    now = gateway.store.now()
    orphan = Message(new_id(), QUEUE, "acme", b"{}", now, 60.0, parent=new_id())
    answers = await asyncio.gather(
        gateway.append([Entry(orphan, now, now + 60_000)]),
        *(gateway.mail.submit(mail(f"ok+{number}@example.org"), tenant="acme") for number in range(5)),
        return_exceptions=True,
    )
    assert isinstance(answers[0], InvalidMessage)
    assert not any(isinstance(answer, BaseException) for answer in answers[1:])


async def test_a_mail_to_three_counts_as_three(gateway: Redrive) -> None:
    recipients = ("ok+1@example.org", "ok+2@example.org", "reply-550-5.1.1@example.org")
    await gateway.mail.submit(mail(*recipients), tenant="acme")
    await run_until_idle(gateway)
    (counts,) = await gateway.store.queues()
    lane = await gateway.store.lane(QUEUE, "acme")
    assert lane is not None
    assert (counts.published, counts.dlq, lane.done, lane.served) == (2, 1, 2, 3)
