"""The dialogue without a socket: what is written when, what replies mean, what is never trusted."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redrive.mail.smtp.dialogue import (
    ANSWERS,
    SENDS,
    Answered,
    Broken,
    Dialogue,
    DialogueState,
    Event,
    Finished,
    GoAhead,
    Meaning,
)
from redrive.mail.smtp.envelope import Envelope
from redrive.mail.smtp.errors import ProtocolError, SmtpPhase, Unsupported
from redrive.mail.smtp.transaction import BLOCK, Transaction

CONTENT = b"Subject: x\r\n\r\n.hello\r\n"
ONE = Envelope("a@example.org", ("b@example.org",), CONTENT)
TWO = Envelope("a@example.org", ("b@example.org", "c@example.org"), CONTENT)


def ready(*extensions: str) -> Dialogue:
    """A dialogue after EHLO."""
    dialogue = Dialogue()
    dialogue.receive(b"220 hello\r\n")
    dialogue.introduce("us.example")
    assert dialogue.take_outgoing() == b"EHLO us.example\r\n"
    lines = ["hello", *extensions]
    dialogue.receive(
        b"".join(f"250-{line}\r\n".encode() for line in lines[:-1]) + f"250 {lines[-1]}\r\n".encode()
    )
    assert dialogue.ready
    return dialogue


def say(dialogue: Dialogue, *lines: str) -> list[Event]:
    return dialogue.receive("".join(f"{line}\r\n" for line in lines).encode())


def outcome(transaction: Transaction) -> list[tuple[SmtpPhase, int, bool]]:
    return [(reply.phase, reply.reply.code, reply.accepted) for reply in transaction.replies()]


def test_with_pipelining_an_envelope_is_one_write() -> None:
    dialogue = ready("PIPELINING")
    transaction = dialogue.begin(TWO)
    assert dialogue.take_outgoing() == (
        b"MAIL FROM:<a@example.org>\r\nRCPT TO:<b@example.org>\r\nRCPT TO:<c@example.org>\r\nDATA\r\n"
    )
    assert say(dialogue, "250 ok", "250 ok", "250 ok", "354 go") == [GoAhead(transaction)]
    assert not transaction.after_dot
    assert dialogue.send_block(transaction)
    assert transaction.after_dot
    assert dialogue.take_outgoing() == b"Subject: x\r\n\r\n..hello\r\n.\r\n"
    assert say(dialogue, "250 taken") == [Finished(transaction)]
    assert outcome(transaction) == [(SmtpPhase.FINAL, 250, True)] * 2


def test_without_pipelining_each_command_waits_for_its_reply() -> None:
    dialogue = ready()
    transaction = dialogue.begin(TWO)
    for command, answer in (
        (b"MAIL FROM:<a@example.org>\r\n", "250 ok"),
        (b"RCPT TO:<b@example.org>\r\n", "550 no"),
        (b"RCPT TO:<c@example.org>\r\n", "251 ok"),
    ):
        assert dialogue.take_outgoing() == command
        assert not dialogue.ready
        assert say(dialogue, answer) == []
    assert dialogue.take_outgoing() == b"DATA\r\n"
    assert say(dialogue, "354 go") == [GoAhead(transaction)]
    dialogue.send_block(transaction)
    assert say(dialogue, "250 taken") == [Finished(transaction)]
    assert outcome(transaction) == [(SmtpPhase.RCPT, 550, False), (SmtpPhase.FINAL, 250, True)]


def test_the_final_dot_and_the_next_envelope_go_together() -> None:
    dialogue = ready("PIPELINING")
    first = dialogue.begin(ONE)
    say(dialogue, "250 ok", "250 ok", "354 go")
    dialogue.take_outgoing()
    dialogue.send_block(first)
    assert dialogue.ready
    second = dialogue.begin(ONE)
    assert dialogue.take_outgoing().endswith(
        b"\r\n.\r\nMAIL FROM:<a@example.org>\r\nRCPT TO:<b@example.org>\r\nDATA\r\n"
    )
    assert (first.phase, first.after_dot) == (SmtpPhase.FINAL, True)
    assert (second.phase, second.after_dot, second.answered) == (SmtpPhase.MAIL, False, False)
    assert say(dialogue, "451 busy", "250 ok", "250 ok", "354 go") == [Finished(first), GoAhead(second)]
    assert outcome(first) == [(SmtpPhase.FINAL, 451, False)]


def test_a_go_ahead_after_every_recipient_was_refused_gets_a_lone_dot() -> None:
    dialogue = ready("PIPELINING")
    transaction = dialogue.begin(TWO)
    dialogue.take_outgoing()
    assert say(dialogue, "250 ok", "550 no", "450 later", "354 go") == []
    assert dialogue.take_outgoing() == b".\r\n"
    assert transaction.decided
    assert not transaction.after_dot
    assert say(dialogue, "250 taken") == [Finished(transaction)]
    assert outcome(transaction) == [(SmtpPhase.RCPT, 550, False), (SmtpPhase.RCPT, 450, False)]


def test_a_refused_sender_is_every_recipients_reply() -> None:
    for extensions, answers in (
        (("PIPELINING",), ["553 no", "503 no", "503 no", "503 no"]),
        ((), ["553 no"]),
    ):
        dialogue = ready(*extensions)
        transaction = dialogue.begin(TWO)
        assert say(dialogue, *answers) == [Finished(transaction)]
        assert outcome(transaction) == [(SmtpPhase.MAIL, 553, False)] * 2
        assert dialogue.ready


def test_without_pipelining_nothing_is_sent_to_nobody() -> None:
    dialogue = ready()
    transaction = dialogue.begin(ONE)
    dialogue.take_outgoing()
    say(dialogue, "250 ok")
    dialogue.take_outgoing()
    assert say(dialogue, "550 no") == [Finished(transaction)]
    assert dialogue.take_outgoing() == b""


def test_a_refused_data_is_the_reply_of_those_accepted_before() -> None:
    dialogue = ready("PIPELINING")
    transaction = dialogue.begin(TWO)
    assert say(dialogue, "250 ok", "250 ok", "550 no", "451 not now") == [Finished(transaction)]
    assert outcome(transaction) == [(SmtpPhase.DATA, 451, False), (SmtpPhase.RCPT, 550, False)]


def test_a_go_ahead_for_a_refused_sender_closes_the_connection() -> None:
    dialogue = ready("PIPELINING")
    dialogue.begin(ONE)
    events = say(dialogue, "550 no", "250 ok", "354 go")
    assert isinstance(events[-1], Broken)


@pytest.mark.parametrize("extensions", [(), ("PIPELINING",)])
def test_after_a_refusal_the_next_envelope_begins_with_reset(extensions: tuple[str, ...]) -> None:
    dialogue = ready(*extensions)
    dialogue.begin(ONE)
    say(dialogue, *(["550 no", "503 no", "503 no"] if extensions else ["550 no"]))
    dialogue.take_outgoing()
    transaction = dialogue.begin(ONE)
    assert dialogue.take_outgoing().startswith(b"RSET\r\n")
    assert dialogue.phase is SmtpPhase.RESET
    say(dialogue, "250 reset")
    assert dialogue.phase is transaction.phase is SmtpPhase.MAIL
    assert not transaction.answered


def test_after_success_there_is_no_reset() -> None:
    dialogue = ready("PIPELINING")
    transaction = dialogue.begin(ONE)
    say(dialogue, "250 ok", "250 ok", "354 go")
    dialogue.send_block(transaction)
    say(dialogue, "250 taken")
    dialogue.take_outgoing()
    dialogue.begin(ONE)
    assert dialogue.take_outgoing().startswith(b"MAIL")


def test_the_final_dot_goes_with_the_last_block_of_a_large_content() -> None:
    dialogue = ready("PIPELINING")
    content = b"x" * 70 + b"\r\n"
    transaction = dialogue.begin(Envelope("a@b", ("c@d",), content * 3_000))
    say(dialogue, "250 ok", "250 ok", "354 go")
    dialogue.take_outgoing()
    sent = b""
    while not dialogue.send_block(transaction):
        block = dialogue.take_outgoing()
        assert len(block) == BLOCK
        assert not transaction.after_dot
        assert dialogue.phase is transaction.phase is SmtpPhase.DATA
        sent += block
    assert sent + dialogue.take_outgoing() == content * 3_000 + b".\r\n"


def test_a_refusal_in_the_middle_of_the_content_counts_and_ends_the_connection() -> None:
    dialogue = ready("PIPELINING")
    transaction = dialogue.begin(Envelope("a@b", ("c@d",), b"x\r\n" * BLOCK))
    say(dialogue, "250 ok", "250 ok", "354 go")
    dialogue.send_block(transaction)
    assert say(dialogue, "552 5.3.4 too big") == [Finished(transaction)]
    assert outcome(transaction) == [(SmtpPhase.DATA, 552, False)]
    assert dialogue.leaving


def test_421_means_that_the_server_leaves() -> None:
    dialogue = ready("PIPELINING")
    transaction = dialogue.begin(ONE)
    say(dialogue, "421 4.7.0 too many messages in this session")
    assert dialogue.leaving
    assert not dialogue.ready
    assert transaction.decided


def test_what_was_learned_before_tls_counts_for_nothing() -> None:
    dialogue = ready("PIPELINING", "STARTTLS", "AUTH PLAIN")
    dialogue.start_tls()
    (answered,) = say(dialogue, "220 go")
    assert isinstance(answered, Answered)
    assert answered.meaning is Meaning.ACCEPTED
    dialogue.secured()
    assert not dialogue.capabilities.mechanisms
    assert not dialogue.ready


@pytest.mark.parametrize("injected", [b"250 injected\r\n", b"2"])
@pytest.mark.parametrize("together", [True, False])
def test_bytes_before_the_handshake_are_an_attack(injected: bytes, together: bool) -> None:
    dialogue = ready("STARTTLS")
    dialogue.start_tls()
    pieces = [b"220 go\r\n" + injected] if together else [b"220 go\r\n", injected]
    events = [event for piece in pieces for event in dialogue.receive(piece)]
    assert isinstance(events[-1], Broken)
    with pytest.raises(ProtocolError):
        dialogue.secured()


@pytest.mark.parametrize("line", ["250 hello?", "354 go", "550 no", "rubbish"])
def test_a_reply_that_nobody_asked_for_is_odd(line: str) -> None:
    (event,) = say(ready("PIPELINING"), line)
    assert isinstance(event, Broken)


def test_what_cannot_be_carried_is_refused_before_anything_is_written() -> None:
    dialogue = ready("PIPELINING", "SIZE 10")
    with pytest.raises(Unsupported):
        dialogue.begin(ONE)
    assert dialogue.take_outgoing() == b""
    assert dialogue.ready


def test_a_command_in_the_wrong_state_is_a_bug_of_ours() -> None:
    dialogue = Dialogue()
    with pytest.raises(RuntimeError, match="mail cannot be sent while the connection is connected"):
        dialogue.begin(ONE)


def test_every_command_that_may_be_sent_may_be_answered() -> None:
    answered = {phase for phase, _ in ANSWERS}
    assert {phase for _, phase in SENDS} | {SmtpPhase.GREETING} == answered
    reachable = set(SENDS.values()) | {after for _, after in ANSWERS.values() if after}
    assert reachable | {DialogueState.CONNECTED, DialogueState.BROKEN} == set(DialogueState)


ANSWER = st.sampled_from(
    ["250 ok", "354 go", "550 no", "450 later", "421 bye", "220 x", "rubbish", "250-more"]
)


@given(st.booleans(), st.lists(ANSWER, max_size=14))
def test_no_order_of_replies_accepts_what_was_not_sent_or_loses_a_recipient(
    pipelining: bool, answers: list[str]
) -> None:
    """After any replies: yes only after the final dot was written, and one fate a recipient once decided."""
    dialogue = ready(*(["PIPELINING"] if pipelining else []))
    transaction = dialogue.begin(TWO)
    for answer in answers:
        for event in say(dialogue, answer):
            if isinstance(event, GoAhead):
                dialogue.send_block(transaction)
            if isinstance(event, Broken | Finished):
                assert transaction.decided or isinstance(event, Broken)
                check(transaction)
                return
    check(transaction)


def check(transaction: Transaction) -> None:
    replies = transaction.replies()
    assert transaction.after_dot or not any(reply.accepted for reply in replies)
    names = [reply.recipient for reply in replies]
    assert names == sorted(set(names))
    if transaction.decided:
        assert names == list(TWO.recipients)
