"""The dialogue without sockets: the protocol's rules, its violations, and every way to cut the bytes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redrive.mailbox.inbox import Inbox
from redrive.mailbox.memory import MailTries
from redrive.mailbox.session import ServerSession
from redrive.mailbox.settings import MailboxSettings
from redrive.mailbox.transaction import SharedState
from redrive.mailbox.wire import Next

ENVELOPE = b"MAIL FROM:<a@x>\r\nRCPT TO:<ok@x>\r\nDATA\r\n"
TO_CONTENT = (b"EHLO t\r\n", ENVELOPE)


class Talk:
    """A session whose replies are read at once."""

    def __init__(self, settings: MailboxSettings | None = None, *, greet: bool = True) -> None:
        settings = settings or MailboxSettings()
        self.inbox = Inbox(settings)
        self.session = ServerSession(settings, SharedState(self.inbox, MailTries(), lambda: 0.0))
        self.session.take_output()
        if greet:
            self.say(b"EHLO t\r\n")

    def say(self, data: bytes) -> str:
        self.session.receive(data)
        return self.session.take_output().decode("utf-8").replace("\r\n", "\n").rstrip("\n")

    @property
    def closed(self) -> bool:
        return self.session.next is Next.CLOSE


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (b"NOOP", "250 2.0.0"),
        (b"noop", "250 2.0.0"),
        (b"RSET", "250 2.0.0"),
        (b"VRFY someone", "252 2.5.0"),
        (b"HELP", "214 2.0.0"),
        (b"EXPN list", "502 5.5.1"),
        (b"BDAT 3 LAST", "502 5.5.1"),
        (b"WHAT", "500 5.5.1"),
        (b"", "500 5.5.1"),
        (b"EHLO", "501 5.5.4"),
        (b"HELO", "501 5.5.4"),
        (b"DATA", "503 5.5.1"),
        (b"DATA now", "501 5.5.4"),
        (b"QUIT now", "501 5.5.4"),
        (b"RCPT TO:<ok@x>", "503 5.5.1"),
        (b"STARTTLS", "502 5.5.1"),
        (b"NO\nOP", "500 5.5.2"),
        (b"NO\rOP", "500 5.5.2"),
        (b"NOOP \xff\xfe", "500 5.5.2"),
    ],
)
def test_each_command_has_its_answer_and_the_session_goes_on(line: bytes, code: str) -> None:
    talk = Talk()
    assert talk.say(line + b"\r\n").startswith(code)
    assert talk.say(b"NOOP\r\n") == "250 2.0.0 ok"


@pytest.mark.parametrize(
    ("argument", "code"),
    [
        ("FROM:<a@x>", "250"),
        ("from:<a@x>", "250"),
        ("FROM:<>", "250"),
        ('FROM:<"a b@c"@x>', "250"),
        ("FROM:<@relay.example:a@x>", "250"),
        ("FROM:<a@x> SIZE=100 BODY=8BITMIME", "250"),
        ("FROM:<a@x> AUTH=<>", "250"),
        ("FROM:<ä@x> SMTPUTF8", "250"),
        ("FROM:<ä@x>", "553 5.6.7"),
        ("FROM: <a@x>", "501"),
        ("FROM:a@x", "501"),
        ("FROM:<a@x", "501"),
        ("FROM:<a>", "501"),
        ("FROM:<a@x>SIZE=1", "501"),
        ("FROM:<a@x> SIZE=one", "501"),
        ("FROM:<a@x> SIZE=-1", "501"),
        ("FROM:<a@x> SIZE=99999999999", "552 5.3.4"),
        ("FROM:<a@x> BODY=BINARYMIME", "501"),
        ("FROM:<a@x> RET=FULL", "555 5.5.4"),
        ("FROM:<a@x\x00>", "501"),
        ("", "501"),
    ],
)
def test_the_sender_is_read_strictly(argument: str, code: str) -> None:
    assert Talk().say(f"MAIL {argument}\r\n".encode()).startswith(code)


@pytest.mark.parametrize(
    ("argument", "code"),
    [
        ("TO:<ok@x>", "250"),
        ("TO:<postmaster>", "250"),
        ("TO:<Postmaster>", "250"),
        ("TO:<>", "501"),
        ("TO: <ok@x>", "501"),
        ("TO:ok@x", "501"),
        ("TO:<ok>", "501"),
        ("TO:<ok@x> NOTIFY=NEVER", "555 5.5.4"),
        ("TO:<ö@x>", "553 5.6.7"),
        ("FROM:<ok@x>", "501"),
    ],
)
def test_a_recipient_is_read_strictly(argument: str, code: str) -> None:
    talk = Talk()
    talk.say(b"MAIL FROM:<a@x>\r\n")
    assert talk.say(f"RCPT {argument}\r\n".encode()).startswith(code)


def test_addresses_beyond_ascii_are_kept_as_they_are() -> None:
    talk = Talk()
    talk.say("MAIL FROM:<ä@x> SMTPUTF8\r\nRCPT TO:<ö@bücher.example>\r\nDATA\r\n".encode())
    talk.say("Subject: grüße\r\n\r\n.\r\n".encode())
    mail = talk.inbox.received[0]
    assert (mail.sender, mail.recipients, mail.subject) == ("ä@x", ("ö@bücher.example",), "grüße")


def test_nothing_but_a_greeting_comes_first() -> None:
    talk = Talk(greet=False)
    assert talk.say(b"MAIL FROM:<a@x>\r\n").startswith("503 5.5.1 say EHLO first")
    assert talk.say(b"AUTH PLAIN\r\n").startswith("503")
    assert talk.say(b"HELO t\r\n") == "250 mailbox.localhost"
    assert talk.say(b"MAIL FROM:<a@x>\r\n").startswith("250")
    assert talk.say(b"MAIL FROM:<a@x>\r\n").startswith("503 5.5.1 a transaction is under way")


@pytest.mark.parametrize("command", [b"RSET\r\n", b"EHLO t\r\n", b"HELO t\r\n"])
def test_a_transaction_can_be_given_up(command: bytes) -> None:
    talk = Talk()
    talk.say(b"MAIL FROM:<a@x>\r\nRCPT TO:<ok@x>\r\n")
    talk.say(command)
    assert talk.say(b"DATA\r\n").startswith("503")
    assert [attempt.code for attempt in talk.inbox.attempts] == [250]


def test_two_pipelined_mails_take_one_read_each() -> None:
    talk = Talk()
    assert [line[:3] for line in talk.say(ENVELOPE).split("\n")] == ["250", "250", "354"]
    assert [line[:3] for line in talk.say(b"one\r\n.\r\n" + ENVELOPE).split("\n")] == [
        "250",
        "250",
        "250",
        "354",
    ]
    assert [line[:3] for line in talk.say(b"two\r\n.\r\nQUIT\r\n").split("\n")] == ["250", "221"]
    assert [mail.content for mail in talk.inbox.received] == [b"one\r\n", b"two\r\n"]
    assert talk.closed


@pytest.mark.parametrize(
    "data",
    [
        ENVELOPE + b"Subject: too early\r\n",
        b"EHLO t\r\nMAIL FROM:<a@x>\r\n",
        b"NOOP\r\nMAIL FROM:<a@x>\r\n",
        b"AUTH PLAIN\r\nAAAA\r\n",
    ],
)
def test_what_was_sent_before_an_answer_it_had_to_wait_for_closes_the_session(data: bytes) -> None:
    talk = Talk()
    assert talk.say(data).split("\n")[-1].startswith("503 5.5.0")
    assert talk.closed


@pytest.mark.parametrize("data", [b"MAIL FROM:<a@x>\r\nRCPT TO:<ok@x>\r\n", b"RSET\r\nNOOP\r\n"])
def test_without_pipelining_nothing_may_be_sent_ahead(data: bytes) -> None:
    talk = Talk(MailboxSettings(pipelining=False))
    assert "PIPELINING" not in talk.say(b"EHLO t\r\n")
    assert talk.say(data).startswith("503 5.5.0")
    assert talk.closed


def test_without_pipelining_a_final_dot_comes_last() -> None:
    talk = Talk(MailboxSettings(pipelining=False))
    for line in ENVELOPE.splitlines(keepends=True):
        talk.say(line)
    assert talk.say(b"x\r\n.\r\nQUIT\r\n").startswith("503 5.5.0")
    assert (talk.inbox.total, talk.closed) == (0, True)


@pytest.mark.parametrize(
    ("sent", "kept"),
    [
        (b".\r\n", b""),
        (b"\r\n.\r\n", b"\r\n"),
        (b"..\r\n.\r\n", b".\r\n"),
        (b"...\r\n.\r\n", b"..\r\n"),
        (b".a\r\n.\r\n", b"a\r\n"),
        (b"a\r\n..b\r\n..\r\n\r\n.\r\n", b"a\r\n.b\r\n.\r\n\r\n"),
        (b"a.\r\nb .\r\n.\r\n", b"a.\r\nb .\r\n"),
        (b"a\xff\x00\r\n.\r\n", b"a\xff\x00\r\n"),
    ],
)
def test_dots_are_unstuffed(sent: bytes, kept: bytes) -> None:
    talk = Talk()
    talk.say(ENVELOPE)
    assert talk.say(sent).startswith("250")
    assert talk.inbox.received[0].content == kept


@pytest.mark.parametrize(
    "smuggled",
    [
        b"\n.\nMAIL FROM:<b@x>\r\n",
        b"\n.\r\nMAIL FROM:<b@x>\r\n",
        b"\r.\r\nMAIL FROM:<b@x>\r\n",
        b"x\ry\r\n",
        b"\n",
    ],
)
def test_no_mail_is_smuggled_through_bare_line_ends(smuggled: bytes) -> None:
    talk = Talk()
    talk.say(ENVELOPE)
    assert talk.say(b"one\r\nx" + smuggled + b"\r\n.\r\n").startswith("554 5.6.0 bare CR or LF")
    assert talk.inbox.total == 0
    assert talk.say(ENVELOPE).endswith("of its own")


@pytest.mark.parametrize(("length", "code"), [(998, "250"), (999, "554 5.6.0")])
@pytest.mark.parametrize("before", [b"", b"short\r\n", b"x" * 998 + b"\r\n"])
def test_a_line_of_content_has_at_most_998_characters(length: int, code: str, before: bytes) -> None:
    talk = Talk()
    talk.say(ENVELOPE)
    assert talk.say(before + b"y" * length + b"\r\nshort\r\n.\r\n").startswith(code)


def test_the_last_line_of_content_may_be_too_long_as_well() -> None:
    talk = Talk()
    talk.say(ENVELOPE)
    assert talk.say(b"y" * 999 + b"\r\n.\r\n").startswith("554 5.6.0")


def test_an_endless_command_line_closes_the_session() -> None:
    talk = Talk()
    assert talk.say(b"NOOP " + b"x" * 2_000) == ""
    assert talk.say(b"x" * 100).startswith("500 5.5.2 command line too long")
    assert talk.closed


def test_content_above_the_size_is_thrown_away_as_it_comes() -> None:
    talk = Talk(MailboxSettings(size_bytes=1_000))
    assert "SIZE 1000" in talk.say(b"EHLO t\r\n")
    talk.say(ENVELOPE)
    for _ in range(1_000):
        assert talk.say(b"x" * 70 + b"\r\n") == ""
        assert len(talk.session._intake._buffer) < 1_200
    assert talk.say(b".\r\n" + ENVELOPE).startswith("552 5.3.4")
    assert talk.say(b"small\r\n.\r\n").startswith("250")


@pytest.mark.parametrize(("size", "code"), [(1_000, "250"), (1_001, "552 5.3.4")])
def test_the_size_is_exact(size: int, code: str) -> None:
    talk = Talk(MailboxSettings(size_bytes=1_000))
    talk.say(ENVELOPE)
    assert talk.say((b"x" * 499 + b"\r\n" + b"x" * (size - 503) + b"\r\n") + b".\r\n").startswith(code)


def test_recipients_are_bounded() -> None:
    talk = Talk(MailboxSettings(recipients=2))
    answers = talk.say(b"MAIL FROM:<a@x>\r\n" + b"RCPT TO:<ok@x>\r\n" * 3)
    assert [line[:9] for line in answers.split("\n")] == ["250 2.1.0", "250 2.1.5", "250 2.1.5", "452 4.5.3"]


def test_a_session_takes_so_many_messages() -> None:
    talk = Talk(MailboxSettings(max_messages_per_connection=1))
    talk.say(ENVELOPE)
    assert talk.say(b".\r\nMAIL FROM:<a@x>\r\n").split("\n")[1].startswith("421 4.7.0 too many messages")
    assert talk.closed


@given(st.data())
def test_the_answers_do_not_depend_on_how_the_bytes_are_cut(data: st.DataObject) -> None:
    whole, cut = Talk(), Talk()
    assert "\n".join(_in_pieces(cut, ENVELOPE, data)) == whole.say(ENVELOPE)
    content = b"Subject: a\r\n\r\n..x\r\n.y\r\n.\r\nRSET\r\nWHAT\r\n" + ENVELOPE
    assert "\n".join(_in_pieces(cut, content, data)) == whole.say(content)
    assert [mail.content for mail in cut.inbox.received] == [mail.content for mail in whole.inbox.received]


def _in_pieces(talk: Talk, sent: bytes, data: st.DataObject) -> list[str]:
    answers = []
    while sent:
        size = data.draw(st.integers(1, len(sent)))
        answers.append(talk.say(sent[:size]))
        sent = sent[size:]
    return [answer for answer in answers if answer]


@given(
    st.lists(
        st.one_of(st.binary(max_size=60), st.sampled_from([b"\r\n", *TO_CONTENT, b".\r\n", b"\r\n.\r\n"]))
    )
)
def test_no_bytes_whatever_break_a_session(chunks: list[bytes]) -> None:
    talk = Talk(greet=False)
    for chunk in chunks:
        if talk.session.next is Next.READ:
            talk.session.receive(chunk)
            for line in talk.session.take_output().split(b"\r\n")[:-1]:
                assert line[:3].isdigit()
    talk.session.lost()
