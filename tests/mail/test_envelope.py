"""What may be written to a server, with which parameters, and how content is dot-stuffed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redrive.mail.smtp.envelope import (
    MAX_RECIPIENTS,
    Capabilities,
    Envelope,
    mail_command,
    recipient_command,
    stuffed,
)
from redrive.mail.smtp.errors import InvalidEnvelope, Unsupported
from redrive.mail.smtp.reply_parser import ServerReply

CONTENT = b"Subject: x\r\n\r\nhello\r\n"
EVERYTHING = Capabilities(size_offered=True, size=100, eight_bit_mime=True, smtputf8=True)


@pytest.mark.parametrize(
    "address",
    [
        "a@b\r\nRCPT TO:<c@d>",
        "a@b\n",
        "a@b\r",
        "a\x00@b",
        "a b@c",
        "a@b> SIZE=1",
        "<a@b>",
        "a@b\x7f",
        "a@b\u2028",
        "a@b\x85",
        "a\ud800@b",
        "a\t@b",
        "a" * 600 + "@b",
    ],
)
def test_an_address_that_would_break_out_is_refused(address: str) -> None:
    for smtputf8 in (False, True):
        with pytest.raises(InvalidEnvelope):
            Envelope(address, ("b@example.org",), CONTENT, smtputf8=smtputf8)
        with pytest.raises(InvalidEnvelope):
            Envelope("a@example.org", ("b@example.org", address), CONTENT, smtputf8=smtputf8)


@given(st.text(max_size=30))
def test_whatever_is_accepted_makes_one_command_line(text: str) -> None:
    try:
        envelope = Envelope(text, (text,), CONTENT, smtputf8=True)
    except InvalidEnvelope:
        return
    for line in (mail_command(envelope, EVERYTHING), recipient_command(text)):
        assert line.count(b"\r") == line.count(b"\n") == 1
        assert line.endswith(b"\r\n")
        assert line.count(b"<") == line.count(b">") == 1


def test_recipients_are_at_least_one_and_bounded() -> None:
    for recipients in ((), ("a@b",) * (MAX_RECIPIENTS + 1), ("",)):
        with pytest.raises(InvalidEnvelope):
            Envelope("a@b", recipients, CONTENT)


@pytest.mark.parametrize("content", [b"a\nb\r\n", b"a\rb\r\n", b"a\r\n.\n", b"a\r\r\n", b"\n.\r\n"])
def test_content_with_bare_line_ends_is_refused(content: bytes) -> None:
    with pytest.raises(InvalidEnvelope):
        Envelope("a@b", ("c@d",), content)


def test_an_empty_sender_is_a_bounce() -> None:
    assert mail_command(Envelope("", ("a@b",), CONTENT), Capabilities()) == b"MAIL FROM:<>\r\n"


def test_parameters_are_those_that_are_needed_and_offered() -> None:
    plain = Envelope("a@b", ("c@d",), CONTENT)
    assert mail_command(plain, Capabilities()) == b"MAIL FROM:<a@b>\r\n"
    assert mail_command(plain, EVERYTHING) == b"MAIL FROM:<a@b> SIZE=%d\r\n" % len(CONTENT)
    wide = Envelope("ä@b", ("c@d",), "é\r\n".encode(), smtputf8=True)
    assert mail_command(wide, EVERYTHING) == "MAIL FROM:<ä@b> SIZE=4 BODY=8BITMIME SMTPUTF8\r\n".encode()


@pytest.mark.parametrize(
    ("envelope", "offered", "feature"),
    [
        (Envelope("a@b", ("c@d",), b"x" * 101), EVERYTHING, "SIZE"),
        (Envelope("a@b", ("c@d",), b"\xc3\xa9"), Capabilities(), "8BITMIME"),
        (Envelope("a@b", ("c@d",), CONTENT, eight_bit=True), Capabilities(), "8BITMIME"),
        (Envelope("ä@b", ("c@d",), CONTENT, smtputf8=True), Capabilities(eight_bit_mime=True), "SMTPUTF8"),
    ],
)
def test_what_is_needed_and_not_offered_is_named(
    envelope: Envelope, offered: Capabilities, feature: str
) -> None:
    with pytest.raises(Unsupported, match=feature if feature != "SIZE" else "bytes") as caught:
        mail_command(envelope, offered)
    assert caught.value.feature == feature


def test_an_address_outside_ascii_needs_smtputf8() -> None:
    with pytest.raises(InvalidEnvelope, match="smtputf8"):
        Envelope("ä@b", ("c@d",), CONTENT)


LINES = st.lists(st.sampled_from([b"", b".", b"..", b".a", b"a.", b"a", b"\xff"]), max_size=8)


@given(LINES, st.booleans())
def test_a_receiver_that_undoes_the_stuffing_gets_the_content_back(lines: list[bytes], ended: bool) -> None:
    content = b"\r\n".join(lines) + (b"\r\n" if ended else b"")
    sent = stuffed(content)
    assert sent.endswith(b"\r\n")
    received = []
    for line in sent.removesuffix(b"\r\n").split(b"\r\n"):
        assert line != b"."
        received.append(line[1:] if line.startswith(b".") else line)
    assert b"\r\n".join(received) == content.removesuffix(b"\r\n")


def test_capabilities_are_read_in_any_case_and_unknown_ones_ignored() -> None:
    lines = (
        b"host STARTTLS",
        b"pipelining",
        b"Size 1000",
        b"AUTH=LOGIN plain",
        b"",
        b"XSOMETHING \xff",
        b"8bitmime",
    )
    found = Capabilities.parse(ServerReply(250, lines))
    assert found == Capabilities(
        pipelining=True,
        size_offered=True,
        size=1000,
        eight_bit_mime=True,
        mechanisms=frozenset({"LOGIN", "PLAIN"}),
    )


@pytest.mark.parametrize("limit", [b"SIZE", b"SIZE 0", b"SIZE x", b"SIZE -5"])
def test_a_size_without_a_limit_is_no_limit(limit: bytes) -> None:
    assert Capabilities.parse(ServerReply(250, (b"host", limit))).size is None
