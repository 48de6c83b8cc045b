"""What was rendered is read by the standard package as what was submitted, whatever was submitted."""

from __future__ import annotations

import re
from email.header import decode_header
from email.headerregistry import Address as StandardAddress
from email.message import EmailMessage
from email.policy import SMTP

from hypothesis import given, settings
from hypothesis import strategies as st

from redrive.mail.writing.addresses import Address
from redrive.mail.writing.checked import Checked, check
from redrive.mail.writing.header_text import encoded_words
from redrive.mail.writing.mail import Mail
from redrive.mail.writing.render import render
from tests.mail.mails import (
    ADDRESSES,
    BODIES,
    DATE,
    LINES,
    MAILS,
    MESSAGE_ID,
    body,
    ended,
    expected_files,
    files,
    read,
    rendered,
    squeezed,
)

_ENCODED_WORD = re.compile(rb"=\?[^?]*\?[^?]*\?[^?]*\?=")
_BARE = re.compile(rb"(?<!\r)\n|\r(?!\n)")


def people(message: EmailMessage, name: str) -> list[tuple[str, str]]:
    """The names and addresses of a header."""
    header = message[name]
    return [] if header is None else [(squeezed(one.display_name), one.addr_spec) for one in header.addresses]


def pairs(addresses: tuple[Address, ...]) -> list[tuple[str, str]]:
    """The same, of what was submitted."""
    return [(squeezed(one.name), one.envelope) for one in addresses]


@given(MAILS)
@settings(max_examples=120, deadline=None)
def test_every_field_is_read_as_it_was_submitted(mail: Mail) -> None:
    checked = check(mail)
    message = read(rendered(mail))
    assert people(message, "From") == pairs((checked.sender,))
    assert people(message, "To") == pairs(checked.to)
    assert people(message, "Cc") == pairs(checked.cc)
    assert people(message, "Reply-To") == pairs(checked.reply_to)
    assert message["Subject"] == checked.subject
    assert message["Date"].datetime == DATE
    assert message["Message-ID"] == MESSAGE_ID
    for name, value in checked.headers:
        assert message[name] == value
    assert body(message, "plain") == ended(mail.text)
    assert body(message, "html") == ended(mail.html)
    assert files(message) == expected_files(checked)
    assert not any(part.defects for part in message.walk())


@given(MAILS)
@settings(max_examples=120, deadline=None)
def test_the_bytes_are_what_mail_servers_accept(mail: Mail) -> None:
    content = rendered(mail)
    assert content.isascii()
    assert b"\0" not in content
    assert not _BARE.search(content)
    assert content.endswith(b"\r\n")
    assert max(map(len, content.split(b"\r\n"))) <= 998
    assert b"blind.example" not in content
    assert content == rendered(mail)


@given(LINES, st.integers(32, 75))
@settings(max_examples=200, deadline=None)
def test_encoded_words_are_short_and_each_holds_whole_characters(text: str, room: int) -> None:
    words = encoded_words(text, room)
    assert len(words[0]) <= room
    assert max(map(len, words)) <= 75
    assert not any(" " in word for word in words)
    pieces = [decode_header(word)[0] for word in words if not word.endswith("??=")]
    assert "".join([bytes(data).decode(charset or "") for data, charset in pieces]) == text


@given(MAILS)
@settings(max_examples=60, deadline=None)
def test_header_lines_stay_short_and_encoded_words_whole(mail: Mail) -> None:
    head = rendered(mail).partition(b"\r\n\r\n")[0]
    for line in head.split(b"\r\n"):
        assert line.strip(), "no line of white space alone"
        words = _ENCODED_WORD.findall(line)
        assert all(len(word) <= 75 for word in words)
        if words or b" " in line.strip().partition(b": ")[2].strip():
            assert len(line) <= 78 or max(map(len, line.split(b" "))) > 60


@given(LINES, BODIES, st.none() | BODIES, ADDRESSES)
@settings(max_examples=60, deadline=None)
def test_the_standard_package_writes_a_mail_that_is_read_the_same(
    subject: str, text: str, html: str | None, sender: str
) -> None:
    mail = Mail(from_=sender, to="a@example.org", subject=subject[:200], text=text, html=html)
    checked = check(mail)
    ours, theirs = read(rendered(mail)), read(standard(checked))
    assert [part.get_content_type() for part in ours.walk()] == [
        part.get_content_type() for part in theirs.walk()
    ]
    assert set(ours.keys()) == set(theirs.keys())
    assert body(ours, "plain") == body(theirs, "plain")
    assert body(ours, "html") == body(theirs, "html")
    assert people(ours, "To") == people(theirs, "To")


def standard(checked: Checked) -> bytes:
    """The same mail by the standard package."""
    message = EmailMessage(policy=SMTP)
    sender = checked.sender
    message["From"] = StandardAddress(sender.name, sender.local, sender.domain)
    message["To"] = [StandardAddress(one.name, one.local, one.domain) for one in checked.to]
    message["Subject"] = checked.subject
    message["Date"] = DATE
    message["Message-ID"] = MESSAGE_ID
    message.set_content(checked.text or "", cte="base64")
    if checked.html is not None:
        message.add_alternative(checked.html, subtype="html", cte="base64")
    return message.as_bytes()


@given(st.sampled_from(["plain", "related", "mixed"]), BODIES)
@settings(max_examples=50, deadline=None)
def test_a_text_that_holds_a_boundary_does_not_end_its_part(kind: str, text: str) -> None:
    first = Mail(from_="a@example.org", to="b@example.org", text=text, html=text)
    seal = re.search(rb"=_alternative_([0-9a-f]+)", render(check(first), message_id=MESSAGE_ID, date=DATE))
    assert seal is not None
    hostile = f"--=_{kind}_{seal[1].decode()}\n{text}"
    mail = Mail(
        from_="a@example.org", to="b@example.org", text=hostile, html=f"--=_alternative_{seal[1].decode()}--"
    )
    message = read(rendered(mail))
    assert body(message, "plain") == ended(hostile)
    assert body(message, "html") == ended(mail.html)
