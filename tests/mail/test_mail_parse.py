"""A message of the standard package: accepted as it is, its envelope read, nothing smuggled in."""

from __future__ import annotations

import smtplib
from email import message_from_bytes, message_from_string
from email.headerregistry import Address as StandardAddress
from email.message import EmailMessage, Message
from email.mime.multipart import MIMEMultipart
from email.mime.text import MIMEText
from email.policy import SMTP, default
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from redrive.mail.smtp.envelope import Envelope
from redrive.mail.stored import Stored
from redrive.mail.writing.checked import MAX_BYTES
from redrive.mail.writing.mail import InvalidMail
from redrive.mail.writing.parse import from_email_message
from tests.mail.mails import CONTROLS, DATE, body, read


def message(**headers: str) -> EmailMessage:
    """A small message; a low line in a name is a hyphen."""
    made = EmailMessage()
    for name, value in ({"From": "Ann <ann@example.org>", "To": "bob@example.org"} | headers).items():
        if value:
            made[name.replace("_", "-")] = value
    made.set_content("Hello\n")
    return made


def prepared(given_message: Message[Any, Any]) -> Stored:
    return from_email_message(given_message, mail_id="0190", date=DATE)


def content(stored: Stored) -> bytes:
    return stored.rendered() or b""


def recipients(given_message: Message[Any, Any]) -> list[str]:
    return list(prepared(given_message).to)


def test_to_cc_and_bcc_are_the_recipients_and_bcc_is_not_in_the_content() -> None:
    made = message(To="b@example.org, C <c@example.org>", Cc="B <b@example.org>", Bcc="d@blind.example")
    assert recipients(made) == ["b@example.org", "c@example.org", "d@blind.example"]
    assert b"blind" not in content(prepared(made))


def test_the_callers_message_is_not_changed() -> None:
    made = message(Bcc="d@example.org")
    before = made.items()
    prepared(made)
    assert made.items() == before


def test_date_and_message_id_are_added_only_when_they_are_missing() -> None:
    added = prepared(message())
    assert added.message_id == "<0190@example.org>"
    assert read(content(added))["Message-ID"] == "<0190@example.org>"
    assert read(content(added))["Date"].datetime == DATE
    kept = prepared(message(Message_ID="<own@example.org>", Date="Mon, 03 Mar 2025 00:00:00 +0000"))
    assert kept.message_id == "<own@example.org>"
    assert content(kept).count(b"Message-ID:") == content(kept).count(b"Date:") == 1


def test_resent_headers_say_nothing_about_the_envelope() -> None:
    made = message(Resent_To="r@example.org", Resent_Bcc="s@blind.example", Resent_From="t@example.org")
    assert recipients(made) == ["bob@example.org"]
    assert prepared(made).from_ == "ann@example.org"
    assert b"blind" not in content(prepared(made))


def test_the_sender_header_is_the_envelope_sender_as_in_smtplib() -> None:
    assert prepared(message(Sender="post@example.org")).from_ == "post@example.org"


def test_a_group_gives_its_members() -> None:
    assert recipients(message(To="friends: a@example.org, b@example.org;")) == [
        "a@example.org",
        "b@example.org",
    ]


@pytest.mark.parametrize(
    ("headers", "field"),
    [
        ({"From": ""}, "From"),
        ({"To": ""}, "To"),
        ({"To": "undisclosed-recipients:;"}, "To"),
        ({"From": "nobody"}, "From"),
        ({"To": "a@[127.0.0.1]"}, "To"),
        ({"To": '"a b"@example.org'}, "To"),
        ({"Bcc": ", ".join(f"a{number}@example.org" for number in range(1_000))}, "To"),
    ],
)
def test_an_envelope_that_cannot_be_is_refused_by_header(headers: dict[str, str], field: str) -> None:
    with pytest.raises(InvalidMail) as caught:
        prepared(message(**headers))
    assert [problem.field for problem in caught.value.problems] == [field]


def test_text_beyond_ascii_is_kept_and_its_needs_are_told() -> None:
    made = message(Subject="Größe")
    made.set_content("Grüße\n", cte="8bit")
    found = prepared(made)
    assert (found.smtputf8, found.eight_bit) == (False, True)
    assert (read(content(found))["Subject"], body(read(content(found)), "plain")) == ("Größe", "Grüße\n")


def test_an_address_beyond_ascii_needs_smtputf8() -> None:
    made = message(To="")
    made["To"] = StandardAddress("Jörg", "jörg", "example.org")
    found = prepared(made)
    assert (found.smtputf8, found.eight_bit) == (True, True)
    assert "jörg@example.org".encode() in content(found)


def test_what_is_prepared_fits_an_envelope() -> None:
    found = prepared(message(Subject="x"))
    names = tuple(found.to)
    Envelope(found.from_, names, content(found), found.smtputf8, found.eight_bit)


def test_messages_of_the_older_kind_are_accepted_too() -> None:
    older = MIMEMultipart("alternative")
    older["From"], older["To"], older["Bcc"] = "a@example.org", "Ü <b@example.org>", "c@example.org"
    older.attach(MIMEText("Grüße", "plain", "utf-8"))
    older.attach(MIMEText("<p>Grüße</p>", "html", "utf-8"))
    found = prepared(older)
    assert list(found.to) == ["b@example.org", "c@example.org"]
    assert body(read(content(found)), "html") == "<p>Grüße</p>"


def test_a_parsed_message_with_folded_headers_is_accepted() -> None:
    source = "From: a@example.org\nTo: b@example.org,\n\tc@example.org\nSubject: one\n two\n\nHello\n"
    for policy in (default, SMTP):
        found = prepared(message_from_string(source, policy=policy))
        assert len(found.to) == 2
        assert read(content(found))["Subject"] == "one two"


def test_the_content_is_what_smtplib_would_send(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[tuple[str, list[str], bytes]] = []
    client = smtplib.SMTP()

    def sendmail(sender: str, to: list[str], content: bytes, *_: object, **__: object) -> dict[str, Any]:
        sent.append((sender, sorted(to), content))
        return {}

    monkeypatch.setattr(client, "sendmail", sendmail)
    monkeypatch.setattr(client, "ehlo_or_helo_if_needed", lambda: None)
    made = message(Cc="c@example.org", Bcc="d@example.org", Date="Mon, 03 Mar 2025 00:00:00 +0000")
    made["Message-ID"] = "<own@example.org>"
    made.add_attachment(b"data", maintype="application", subtype="pdf", filename="größe.pdf")
    made.set_boundary("a-boundary")
    client.send_message(made)
    found = prepared(made)
    assert sent == [(found.from_, sorted(recipients(made)), content(found))]


@pytest.mark.parametrize("control", [control for control in CONTROLS if control != "\t"])
@pytest.mark.parametrize("shape", ["X-A{}Bcc", "{}", "X-A: b{}"])
def test_a_header_name_that_is_none_is_refused(control: str, shape: str) -> None:
    made = message()
    made[shape.format(control)] = "x@example.org"
    with pytest.raises(InvalidMail, match="name"):
        prepared(made)


@pytest.mark.parametrize(
    "value", ["a\r\nBcc: x@example.org", "a\nb", "a\rb", "a\n", "a\0b", "a\x1bb", "a\u2028b"]
)
@pytest.mark.parametrize("name", ["X-A", "Subject", "To"])
def test_a_header_value_with_a_line_break_or_control_character_is_refused(name: str, value: str) -> None:
    older = MIMEText("Hello")
    older["From"], older["To"] = "a@example.org", "b@example.org"
    older[name] = value
    with pytest.raises(InvalidMail):
        prepared(older)


@pytest.mark.parametrize("name", ["Subject", "X-A", "From", "To"])
def test_a_line_break_hidden_in_an_encoded_word_is_refused(name: str) -> None:
    encoded = "=?utf-8?q?a=0D=0ABcc=3A_x=40example=2Eorg?="
    lines = {"From": "a@example.org", "To": "b@example.org"} | {name: f"{encoded} <c@example.org>"}
    source = "".join(f"{field}: {value}\n" for field, value in lines.items()) + "\nHello\n"
    with pytest.raises(InvalidMail):
        prepared(message_from_string(source, policy=default))


def test_a_part_is_checked_like_the_message() -> None:
    outer = MIMEMultipart()
    outer["From"], outer["To"] = "a@example.org", "b@example.org"
    inner = MIMEText("Hello")
    inner["X-A"] = "a\r\n\r\n--boundary"
    outer.attach(inner)
    with pytest.raises(InvalidMail, match="X-A"):
        prepared(outer)


def test_a_message_with_defects_is_refused() -> None:
    source = (
        b"From: a@example.org\nTo: b@example.org\nContent-Type: multipart/mixed; boundary=x\n\nno boundary\n"
    )
    with pytest.raises(InvalidMail, match="defect"):
        prepared(message_from_bytes(source, policy=default))


@pytest.mark.parametrize("text", ["a\0b", "x" * 1_000])
def test_what_no_server_takes_is_refused(text: str) -> None:
    made = message()
    made.set_content("Hello\n")
    made.set_payload(text)
    with pytest.raises(InvalidMail, match="NUL or a line"):
        prepared(made)


def test_a_message_over_25_mib_is_refused() -> None:
    made = message()
    made.add_attachment(b"x" * (MAX_BYTES * 3 // 4), maintype="application", subtype="pdf", filename="a.pdf")
    with pytest.raises(InvalidMail, match="bytes"):
        prepared(made)


@given(
    st.sampled_from(["Subject", "X-A", "X-\r\nBcc", "Reply-To", "Comments", "Sender"]),
    st.text(st.sampled_from('\r\n\0 \tBc:x@\x85\u2028a-=?utf8q_0DA,<>"ü'), max_size=40),
)
@settings(max_examples=300, deadline=None)
def test_a_message_is_refused_or_has_exactly_its_own_headers(name: str, value: str) -> None:
    older = MIMEText("Hello")
    older["From"], older["To"], older[name] = "a@example.org", "b@example.org", value
    try:
        found = prepared(older)
    except InvalidMail:
        return
    names = [
        "Content-Type",
        "MIME-Version",
        "Content-Transfer-Encoding",
        "From",
        "To",
        name,
        "Date",
        "Message-ID",
    ]
    assert list(read(content(found))) == names
    assert list(found.to) == ["b@example.org"]
