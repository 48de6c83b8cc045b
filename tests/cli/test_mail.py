"""`redrive mail send`, `show` and `destinations`: what is stored, what is refused, the state of each
recipient, and where mail did not arrive."""

from __future__ import annotations

import io
import json
from email import message_from_bytes
from email.message import EmailMessage, Message
from email.policy import default

import pytest

from redrive.app import Redrive
from redrive.mail import stored
from redrive.mailbox import Mailbox
from redrive.testing import run_until_idle
from redrive.wiring import load
from tests.cli.conftest import Shop

MAIL = ("--from", "Acme <shop@acme.example>", "--to", "ok@b.example")


def _sent(shop: Shop, mail_id: str) -> Message:
    async def content(app: Redrive) -> bytes:
        account = await app.store.get(mail_id)
        assert account is not None
        return stored.decode(account.message.body).rendered() or b""

    return message_from_bytes(shop.with_app(content), policy=default)


def _deliver(shop: Shop) -> None:
    """Send what waits into a simulator, once."""

    async def body(_: Redrive) -> None:
        async with Mailbox() as mailbox:
            gateway = Redrive(settings=load({"mail": mailbox.url}))
            gateway.serve_mail()
            async with gateway:
                await run_until_idle(gateway)

    shop.with_app(body)


def test_every_flag_reaches_the_mail(shop: Shop) -> None:
    (shop.folder / "plan.pdf").write_bytes(b"%PDF")
    result = shop(
        "mail", "send", *MAIL, "--to", "Bo <bo@b.example>", "--cc", "cc@b.example", "--bcc", "bcc@b.example",
        "--reply-to", "desk@acme.example", "--subject", "Hi", "--text", "Hello", "--html", "<p>Hello</p>",
        "--attach", "plan.pdf", "--header", "X-Order=7=8", "--tenant", "acme", "--ttl", "10m",
        "--idempotency-key", "order-7",
    )  # fmt: skip
    assert result.code == 0, result.error
    mail_id = result.out.strip()
    mail = _sent(shop, mail_id)
    assert isinstance(mail, EmailMessage)
    assert (mail["From"], mail["Subject"], mail["X-Order"]) == ("Acme <shop@acme.example>", "Hi", "7=8")
    assert (mail["To"], mail["Cc"], mail["Bcc"]) == ("ok@b.example, Bo <bo@b.example>", "cc@b.example", None)
    (attachment,) = mail.iter_attachments()
    assert (attachment.get_filename(), attachment.get_content_type()) == ("plan.pdf", "application/pdf")
    shown = shop.ok("mail", "show", mail_id, "--reveal")
    assert {one["address"] for one in shown["recipients"]} >= {"bcc@b.example", "cc@b.example"}
    assert shop.ok("show", mail_id)["dedupe"] == "order-7"


def test_the_text_may_come_from_standard_input(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("from a pipe\n"))
    mail_id = shop.ok("mail", "send", *MAIL, "--text", "-")["jobId"]
    mail = _sent(shop, mail_id)
    assert isinstance(mail, EmailMessage)
    assert mail.get_content().strip() == "from a pipe"


def test_a_duplicate_names_the_first_and_another_mail_is_a_conflict(shop: Shop) -> None:
    key = ("--idempotency-key", "k")
    first = shop.ok("mail", "send", *MAIL, "--text", "Hi", *key)["jobId"]
    again = shop("mail", "send", *MAIL, "--text", "Hi", *key)
    assert (again.code, again.out.strip()) == (0, first)
    other = shop("mail", "send", *MAIL, "--text", "Ho", *key)
    assert (other.code, other.out) == (1, "")
    assert first in other.error


@pytest.mark.usefixtures("late_retries")
def test_show_tells_each_recipients_state_and_attempts(shop: Shop) -> None:
    to = ("--to", "reply-550-5.1.1@b.example", "--to", "fail-2-then-ok@b.example")
    mail_id = shop.ok("mail", "send", *MAIL, *to, "--text", "Hi")["jobId"]
    assert {one["status"] for one in shop.ok("mail", "show", mail_id)["recipients"]} == {"queued"}
    _deliver(shop)
    recipients = {one["address"]: one for one in shop.ok("mail", "show", mail_id, "--reveal")["recipients"]}
    assert {address: one["status"] for address, one in recipients.items()} == {
        "ok@b.example": "sent",
        "reply-550-5.1.1@b.example": "failed",
        "fail-2-then-ok@b.example": "retrying",
    }
    assert recipients["fail-2-then-ok@b.example"]["nextAttemptAt"]
    assert [one["result"] for one in recipients["reply-550-5.1.1@b.example"]["attempts"]] == ["permanent"]
    shown = shop("mail", "show", mail_id, "--reveal").out
    for part in ("ok@b.example  on attempt 1", "attempt 1 permanent: 550 5.1.1", "again in"):
        assert part in shown


def test_show_masks_addresses_and_reasons_and_a_reveal_is_in_the_audit(shop: Shop) -> None:
    to = ("--to", "reply-550-5.1.1@b.example")
    mail_id = shop.ok("mail", "send", *MAIL, *to, "--text", "Hi")["jobId"]
    for _ in range(2):
        for form in ((), ("--json",)):
            shown = shop("mail", "show", mail_id, *form).out
            assert "***@b.example" in shown
            assert "reply-550" not in shown
        _deliver(shop)
    assert shop.ok("audit", "list", "--verb", "reveal")["rows"] == []
    assert "reply-550-5.1.1@b.example" in shop("mail", "show", mail_id, "--reveal").out
    intent, outcome = shop.ok("audit", "list", "--verb", "reveal")["rows"]
    assert (intent["row"], intent["subject"]) == ("intent", {"ids": [mail_id]})
    assert (outcome["row"], outcome["ok"]) == ("outcome", True)


def _edit(shop: Shop, letter_id: str, address: str) -> None:
    """Re-drive a recipient's letter to another address."""
    letter = shop.ok("dlq", "show", letter_id, "--reveal")
    payload = letter["originalData"] | {"to": [address]}
    assert shop.ok("dlq", "edit", letter_id, json.dumps(payload))["operation"]["moved"] == 1


def _recipients(shop: Shop, mail_id: str) -> dict[str, str]:
    shown = shop.ok("mail", "show", mail_id, "--reveal")
    return {one["address"]: one["status"] for one in shown["recipients"]}


def test_an_edited_mail_is_shown_as_it_is_now(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REDRIVE_OFFICE_EDIT", "true")
    sender = ("--from", "shop@example.com", "--text", "Hi")
    mail_id = shop.ok("mail", "send", *sender, "--to", "reply-550-5.1.1@b.example")["jobId"]
    _deliver(shop)
    _edit(shop, mail_id, "reply-550-5.1.1+again@b.example")
    edited_id = shop.ok("show", mail_id)["replacedBy"]
    assert _recipients(shop, mail_id) == {"reply-550-5.1.1+again@b.example": "queued"}
    _deliver(shop)
    _edit(shop, edited_id, "ok@b.example")
    assert _recipients(shop, mail_id) == {"ok@b.example": "queued"}
    _deliver(shop)
    assert _recipients(shop, mail_id) == {"ok@b.example": "sent"}
    assert shop.ok("mail", "show", mail_id)["id"] == mail_id
    (recipient,) = shop.ok("mail", "show", mail_id)["recipients"]
    assert f"edited as  {recipient['jobId']}" in shop("mail", "show", mail_id).out


def test_one_edited_recipient_of_many_takes_the_place_of_the_old(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REDRIVE_OFFICE_EDIT", "true")
    mail_id = shop.ok("mail", "send", *MAIL, "--to", "reply-550-5.1.1@b.example", "--text", "Hi")["jobId"]
    _deliver(shop)
    (letter,) = shop.ok("dlq", "list")["letters"]
    _edit(shop, letter["jobId"], "ok+2@b.example")
    _deliver(shop)
    assert _recipients(shop, mail_id) == {"ok@b.example": "sent", "ok+2@b.example": "sent"}


def test_destinations_counts_dead_mails_by_domain_and_code(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number, tenant in enumerate(("acme", "acme", "globex")):
        to = ("--to", f"reply-550-5.1.1+{number}@nobody.example", "--to", f"reply-552+{number}@full.example")
        shop.ok("mail", "send", "--from", "shop@b.example", *to, "--text", "Hi", "--tenant", tenant)
    _deliver(shop)
    found = shop.ok("mail", "destinations", "--limit", "1")
    assert (found["looked"], found["whole"], found["others"], found["index"]["behind"]) == (6, True, 1, False)
    (row,) = shop.ok("mail", "destinations", "--tenant", "acme", "--filter", "nobody.example")["destinations"]
    assert (row["domain"], row["code"], row["count"]) == ("nobody.example", "550", 2)
    shown = shop("mail", "destinations")
    assert "nobody.example" in shown.out
    assert "redrive dlq list --filter" in shown.error
    assert "reply-5" not in shown.out + shown.error
    assert shop("mail", "destinations", "--queue", "nowhere").code == 4
    assert shop("mail", "destinations", "--limit", "0").code == 2
    assert "no tenant nobody" in shop("mail", "destinations", "--tenant", "nobody").error
    monkeypatch.setenv("REDRIVE_OFFICE_MASKED", "to")
    assert "office.masked" in shop("mail", "destinations").error


def test_a_message_that_is_no_mail_is_not_found(shop: Shop) -> None:
    for message_id in (shop.send(), "unknown"):
        assert shop("mail", "show", message_id).code == 4


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (("--from", "a@b.example", "--text", "Hi"), "recipient"),
        (("--from", "nobody", "--to", "ok@b.example", "--text", "Hi"), "from"),
        (("--to", "ok@b.example", "--text", "Hi"), "--from"),
        ((*MAIL, "--text", "Hi", "--to", "a@b.example\r\nRCPT TO:<x@y.example>"), "to[1]"),
        ((*MAIL, "--text", "Hi", "--subject", "a\r\nBcc: x@y.example"), "subject"),
        ((*MAIL, "--text", "Hi", "--header", "Bcc=x@y.example"), "Bcc"),
        ((*MAIL, "--text", "Hi", "--header", "x"), "name=value"),
        ((*MAIL, "--text", "Hi", "--attach", "gone.pdf"), "gone.pdf cannot be read"),
        ((*MAIL, "--text", "Hi", "--ttl", "0s"), "ttl"),
        ((*MAIL, "--text", "Hi", "--tenant", "a b"), "is not a name"),
        ((*MAIL, "--text", "-", "--html", "-"), "standard input"),
    ],
)
def test_what_cannot_be_sent_is_a_usage_error(shop: Shop, flags: tuple[str, ...], said: str) -> None:
    result = shop("mail", "send", *flags)
    assert (result.code, result.out) == (2, "")
    assert said in result.error
    assert "Traceback" not in result.error
