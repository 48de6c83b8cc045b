"""Rendering: the shape of the bytes for mails one can name; the oracle covers all others."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import SMTP

import pytest

from redrive.mail.writing.checked import check
from redrive.mail.writing.mail import Attachment, Mail, make_message_id
from redrive.mail.writing.render import render
from tests.mail.mails import DATE, MESSAGE_ID, body, files, read, rendered

PLAIN = b"""\
From: Acme Shop <noreply@acme.example>
To: ann@example.org
Subject: Your order has been shipped
Date: Tue, 04 Mar 2025 05:06:07 +0000
Message-ID: <0190-mail@example.org>
MIME-Version: 1.0
Content-Type: text/plain; charset="utf-8"
Content-Transfer-Encoding: 7bit

Hello Ann.
.
From us.
"""


def mail(**fields: object) -> Mail:
    """A small mail with some fields of one's own."""
    given = {"from_": "shop@acme.example", "to": "ann@example.org", "text": "Hello"} | fields
    return Mail(**given)  # type: ignore[arg-type]


def kinds(content: bytes) -> list[str]:
    return [part.get_content_type() for part in read(content).walk()]


def test_a_plain_mail_is_these_bytes() -> None:
    plain = mail(
        from_="Acme Shop <noreply@acme.example>",
        subject="Your order has been shipped",
        text="Hello Ann.\n.\nFrom us.",
    )
    assert rendered(plain) == PLAIN.replace(b"\n", b"\r\n")


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, ["text/plain"]),
        ({"text": None, "html": "<p>"}, ["text/html"]),
        ({"html": "<p>"}, ["multipart/alternative", "text/plain", "text/html"]),
        (
            {"attachments": [Attachment.of("a.pdf", b"a", "application/pdf")]},
            ["multipart/mixed", "text/plain", "application/pdf"],
        ),
        (
            {
                "text": None,
                "html": "<p>",
                "attachments": [Attachment.of("a", b"a", "image/png", content_id="a")],
            },
            ["multipart/related", "text/html", "image/png"],
        ),
        (
            {"attachments": [Attachment.of("a", b"a", "image/png", content_id="a")]},
            ["multipart/mixed", "text/plain", "image/png"],
        ),
        (
            {
                "html": "<p>",
                "attachments": [
                    Attachment.of("a.pdf", b"a", "application/pdf"),
                    Attachment.of("b", b"b", "image/png", content_id="b"),
                ],
            },
            [
                "multipart/mixed",
                "multipart/alternative",
                "text/plain",
                "multipart/related",
                "text/html",
                "image/png",
                "application/pdf",
            ],
        ),
    ],
)
def test_parts_are_nested_only_as_far_as_needed(fields: dict[str, object], expected: list[str]) -> None:
    assert kinds(rendered(mail(**fields))) == expected


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        ("", "7bit"),
        ("plain", "7bit"),
        ("x" * 998, "7bit"),
        ("x" * 999, "quoted-printable"),
        ("Grüße aus Köln, mit sehr viel mehr Text", "quoted-printable"),
        ("日本語のテキスト", "base64"),
        ("\x1b[31m" + "é" * 3, "base64"),
    ],
)
def test_text_is_encoded_only_when_it_must_and_then_the_shorter_way(text: str, encoding: str) -> None:
    message = read(rendered(mail(text=text)))
    assert message["Content-Transfer-Encoding"] == encoding
    assert body(message, "plain") == text + "\n"


def test_a_blind_copy_is_nowhere_in_the_bytes() -> None:
    content = rendered(mail(to=(), bcc=["secret@blind.example"]))
    assert b"blind" not in content.lower()
    assert b"\r\nTo:" not in content


def test_unsubscribe_by_https_offers_one_click_and_by_mail_does_not() -> None:
    both = read(rendered(mail(list_unsubscribe=["https://acme.example/u?a=1,2", "mailto:u@acme.example"])))
    assert both["List-Unsubscribe"] == "<https://acme.example/u?a=1,2>, <mailto:u@acme.example>"
    assert both["List-Unsubscribe-Post"] == "List-Unsubscribe=One-Click"
    assert read(rendered(mail(list_unsubscribe="mailto:u@acme.example")))["List-Unsubscribe-Post"] is None


def test_many_recipients_are_folded_between_them() -> None:
    content = rendered(mail(to=[f"Person {number} <person{number}@example.org>" for number in range(500)]))
    assert max(map(len, content.split(b"\r\n"))) <= 78
    assert len(read(content)["To"].addresses) == 500


def test_folding_keeps_every_space() -> None:
    value = "one  two   three " * 20 + "end"
    content = rendered(mail(subject=value, headers={"X-A": value}))
    assert max(map(len, content.split(b"\r\n"))) <= 78
    assert (read(content)["Subject"], read(content)["X-A"]) == (value, value)


def test_free_text_encodes_only_the_words_that_need_it() -> None:
    content = rendered(mail(headers={"List-Id": "News für alle <news.acme.example>"}))
    assert b"List-Id: News =?utf-8?q?f=C3=BCr?= alle <news.acme.example>\r\n" in content


def test_an_address_among_the_custom_headers_is_written_as_an_address() -> None:
    content = rendered(mail(headers={"Sender": "Jörg <joerg@acme.example>"}))
    (sender,) = [read(content)["Sender"].address]
    assert (sender.display_name, sender.addr_spec) == ("Jörg", "joerg@acme.example")


def test_a_long_header_name_adds_no_space_to_its_value() -> None:
    name = "X-" + "a" * 74
    content = rendered(mail(headers={name: "ü" * 40}))
    assert max(map(len, content.split(b"\r\n"))) <= len(name) + 34
    assert read(content)[name] == "ü" * 40


def test_a_word_too_long_for_a_line_is_sent_as_encoded_words() -> None:
    content = rendered(mail(headers={"X-Token": "t" * 5_000}))
    assert max(map(len, content.split(b"\r\n"))) <= 78
    assert read(content)["X-Token"] == "t" * 5_000


def test_a_file_name_comes_whole_and_once_more_in_ascii() -> None:
    content = rendered(mail(attachments=[Attachment.of("Résumé € größer.pdf", b"a", "application/pdf")]))
    assert b'filename="Resume _ gro_er.pdf"' in content
    assert [file.filename for file in files(read(content))] == ["Résumé € größer.pdf"]


def test_an_address_beyond_ascii_makes_the_content_need_smtputf8() -> None:
    needing, blind = mail(to="jörg@example.org"), mail(bcc="jörg@example.org")
    assert (check(needing).smtputf8, rendered(needing).isascii()) == (True, False)
    assert "To: jörg@example.org\r\n".encode() in rendered(needing)
    assert (check(blind).smtputf8, rendered(blind).isascii()) == (False, True)


def attached(inner: bytes) -> bytes:
    return rendered(mail(attachments=[Attachment.of("inner.eml", inner, "message/rfc822")]))


def test_an_attached_mail_travels_as_lines_and_not_as_base64() -> None:
    content = attached(b"Subject: inner\n\n.hello\n")
    assert b"Content-Transfer-Encoding: 7bit\r\n" in content
    assert b"Subject: inner\r\n\r\n.hello\r\n" in content
    assert kinds(content)[-2:] == ["message/rfc822", "text/plain"]


def test_an_attached_mail_in_8_bit_is_encoded_anew_by_the_standard_package() -> None:
    inner = EmailMessage(policy=SMTP)
    inner["Subject"] = "Grüße"
    inner.set_content("Größe\n", cte="8bit")
    made = attached(inner.as_bytes())
    assert made.isascii()
    (part,) = [one for one in read(made).walk() if one.get_content_type() == "message/rfc822"]
    found = part.get_payload(0)
    assert isinstance(found, EmailMessage)
    assert (found["Subject"], body(found, "plain")) == ("Grüße", "Größe\n")


@pytest.mark.parametrize("inner", [b"no headers \xff\xfe", b"Subject: x\n\n" + b"y" * 2_000, b"a: b\n\n\0"])
def test_an_attached_mail_that_cannot_be_lines_becomes_an_ordinary_file(inner: bytes) -> None:
    made = attached(inner)
    assert made.isascii()
    assert [(file.content_type, file.data) for file in files(read(made))] == [
        ("application/octet-stream", inner)
    ]


def test_the_date_is_written_in_utc_whatever_its_zone() -> None:
    zone = timezone(timedelta(hours=2))
    content = render(check(mail()), message_id=MESSAGE_ID, date=DATE.astimezone(zone))
    assert b"Date: Tue, 04 Mar 2025 05:06:07 +0000\r\n" in content


def test_a_message_id_is_made_of_the_mail_and_the_sender() -> None:
    assert make_message_id("0190", "example.org") == "<0190@example.org>"
    with pytest.raises(ValueError, match="id is"):
        make_message_id("a\r\nb", "example.org")


@pytest.mark.parametrize("message_id", ["", "a@b", "<a>", "<a@b>\r\nBcc: c@d", "<a b@c>", "<a@b\n>", "<@b>"])
def test_what_is_no_message_id_is_not_rendered(message_id: str) -> None:
    with pytest.raises(ValueError, match="message_id"):
        render(check(mail()), message_id=message_id, date=datetime.now(UTC))


def test_a_date_without_a_zone_is_not_rendered() -> None:
    with pytest.raises(ValueError, match="time zone"):
        render(check(mail()), message_id=MESSAGE_ID, date=DATE.replace(tzinfo=None))


def test_the_bytes_survive_a_second_writing_by_the_standard_package() -> None:
    content = rendered(mail(subject="Größe", text="Grüße", html="<p>ü</p>"))
    again = message_from_bytes(content, policy=SMTP).as_bytes()
    assert read(again)["Subject"] == "Größe"
    assert body(read(again), "plain") == "Grüße\n"
