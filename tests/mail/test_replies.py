"""Judging replies: what is read out of a text, what misleads, the waits asked for, and hostile texts."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redrive.core.failure import Kind, Scope
from redrive.mail.judging.replies import Action, Reply, Severity, Stage
from redrive.mail.judging.rules import Rules, asked_wait_s

RULES = Rules.default()


@pytest.mark.parametrize("text", ["", " ", "kaboom", "250 ok", "\x00\ud800", "999 no"])
def test_what_nobody_understands_is_temporary(text: str) -> None:
    assert RULES.judge(Reply.parse(text)).kind is Kind.TEMPORARY


@pytest.mark.parametrize(
    ("text", "action", "scope"),
    [
        ("550 Empfänger unbekannt", Action.FAIL_RECIPIENT, Scope.RECIPIENT),
        ("550 Das Postfach ist voll", Action.RETRY_SLOW, Scope.RECIPIENT),
        ("552 Boîte du destinataire pleine", Action.RETRY_SLOW, Scope.RECIPIENT),
        ("421 Trop de connexions", Action.RETRY_SLOW, Scope.DESTINATION),
        ("550 El buzón está lleno", Action.RETRY_SLOW, Scope.RECIPIENT),
        ("554 Su IP está en una lista negra", Action.RETRY_ELSEWHERE, Scope.IDENTITY),
        ("550 Usuário inexistente", Action.FAIL_RECIPIENT, Scope.RECIPIENT),
        ("552 Casella piena", Action.RETRY_SLOW, Scope.RECIPIENT),
        ("550 Gebruiker onbekend", Action.FAIL_RECIPIENT, Scope.RECIPIENT),
        ("550 Nie ma takiego użytkownika", Action.FAIL_RECIPIENT, Scope.RECIPIENT),
        ("550 Попробуйте позже", Action.RETRY, Scope.DESTINATION),
        ("550 发送频率过快,请稍后再试", Action.RETRY_SLOW, Scope.DESTINATION),
        ("550 宛先のメールアドレスが存在しません", Action.FAIL_RECIPIENT, Scope.RECIPIENT),
    ],
)
def test_wording_counts_in_many_languages(text: str, action: Action, scope: Scope) -> None:
    judgement = RULES.judge(Reply.parse(text))
    assert (judgement.action, judgement.scope) == (action, scope)


@pytest.mark.parametrize(
    ("text", "code", "enhanced", "stage", "name"),
    [
        ("550 5.1.1 <a@example.com>: no", 550, "5.1.1", None, None),
        ("550-5.7.1 one\n550 5.7.1 two", 550, "5.7.1", None, None),
        ("smtp; 550 5.1.1 no", 550, "5.1.1", None, None),
        ("sorry, no mailbox here. (#5.1.1)", None, "5.1.1", None, None),
        ("host mx[192.0.2.1] said: 452 4.2.2 full (in reply to RCPT TO command)", 452, "4.2.2", "rcpt", None),
        ("said: 554 5.7.1 no (in reply to end of DATA command)", 554, "5.7.1", "final", None),
        ("SMTP error from remote mail server after MAIL FROM:<a@b.c>: 550 no", 550, None, "mail", None),
        ("host mx.example.net refused to talk to me: 554 no", 554, None, "greeting", None),
        ("[Errno 111] Connection refused", None, None, None, None),
        ("timed out after 450 seconds at 192.0.2.1:587", None, None, None, None),
        ("Throttling: Rate exceeded", None, None, None, "Throttling"),
        ("smtplib.SMTPServerDisconnected: gone", None, None, None, "SMTPServerDisconnected"),
        ("Mailbox full", None, None, None, None),
        ("421 4.7.0 deferred - 4.16.55.1; see", 421, "4.7.0", None, None),
    ],
)
def test_a_reply_is_found_in_what_is_around_it(
    text: str, code: int | None, enhanced: str | None, stage: str | None, name: str | None
) -> None:
    reply = Reply.parse(text)
    assert (reply.code, reply.enhanced, reply.stage, reply.name) == (code, enhanced, stage, name)


def test_a_log_line_around_the_reply_is_not_its_wording() -> None:
    assert RULES.judge(Reply.parse("host blocked.example.com said: 550 no")).rule == "code-550"


@pytest.mark.parametrize(
    ("text", "action"),
    [
        ("451 4.7.1 This message was identified as spam and rejected", Action.FAIL_MESSAGE),
        ("451 4.7.1 Virus scanner not available, message deferred", Action.RETRY),
        ("550 5.4.3 DNS lookup failed, server did not answer", Action.RETRY),
        ("554 5.7.1 Reverse DNS lookup failed: no PTR record", Action.HOLD),
        ("550 Recipient lookup failed: no such user", Action.FAIL_RECIPIENT),
        ("552 Number of messages in this connection is over the limit", Action.RETRY_SLOW),
        ("550 Message limit a session reached", Action.RETRY_SLOW),
        ("552 Message size exceeds the limit of 25 MB", Action.FAIL_MESSAGE),
        ("554 Mail from 192.0.2.9 will not be accepted: listed by SpamCop", Action.RETRY_ELSEWHERE),
        ("554 Relay access denied: 192.0.2.9 is on our blacklist", Action.RETRY_ELSEWHERE),
        ("554 5.7.1 Relay access denied", Action.HOLD),
        ("550 Recipient not listed in our directory", Action.FAIL_RECIPIENT),
        ("550 192.0.2.9 is listed in our database of spammers", Action.RETRY_ELSEWHERE),
        ("550 We do not talk to 192.0.2.9", Action.RETRY_ELSEWHERE),
        ("550 IP address 2001:db8::9 blocked", Action.RETRY_ELSEWHERE),
        ("550 HL:IHU 126 smtp1", Action.RETRY_ELSEWHERE),
        ("SMTPAuthenticationError: (454, b'4.7.0 Temporary authentication failure')", Action.RETRY),
    ],
)
def test_replies_that_mislead_are_judged_by_what_they_mean(text: str, action: Action) -> None:
    assert RULES.judge(Reply.parse(text)).action is action


@pytest.mark.parametrize(
    "text",
    [
        "550 5.1.1 Empfänger unbekannt",
        "b'550 5.1.1 Empf\\xc3\\xa4nger unbekannt'",
        "(550, b'5.1.1 Empf\\xc3\\xa4nger\\r\\n5.1.1 unbekannt')",
        "{'a@example.com': (550, b\"5.1.1 Empf\\xc3\\xa4nger unbekannt\")}",
        "550 5.1.1 EmpfÃ¤nger unbekannt",
        "550 5.1.1 Empf&auml;nger unbekannt",
        '{"response":"550 5.1.1 Empf\\u00e4nger unbekannt","responseCode":550}',
        "550-5.1.1 Empfänger\r\n550 5.1.1 unbekannt",
        "EMPFÄNGER UNBEKANNT (SMTP code: 550, 5.1.1)",
        "> 550 5.1.1 Empfänger unbekannt",
    ],
)
def test_a_reply_is_judged_alike_whatever_a_program_put_around_it(text: str) -> None:
    reply = Reply.parse(text)
    assert (reply.code, reply.enhanced) == (550, "5.1.1")
    assert RULES.judge(reply).rule == "unknown-user"


@pytest.mark.parametrize("text", ["", "\\", "&", "&#0;", "\\x", "\\ud800", "Ã", "Ã\x80Ã", "AT&T;", "C:\\new"])
def test_what_only_looks_like_an_escape_is_read_without_error(text: str) -> None:
    assert RULES.judge(Reply.parse(f"450 {text}")).kind is Kind.TEMPORARY


def test_a_received_reply_keeps_its_parts() -> None:
    reply = Reply.received(550, None, "sorry, no mailbox here. (#5.1.1) 450 4.2.0", stage=Stage.RCPT)
    assert (reply.code, reply.enhanced, reply.stage) == (550, "5.1.1", Stage.RCPT)
    assert Reply.received(451, "4.7.1", "said: 550 no", stage=None).code == 451


@pytest.mark.parametrize(
    ("code", "enhanced", "severity"),
    [
        (550, "4.2.1", "temporary"),
        (450, "5.7.1", "temporary"),
        (550, None, "permanent"),
        (None, None, "none"),
    ],
)
def test_a_four_in_either_code_is_temporary(code: int | None, enhanced: str | None, severity: str) -> None:
    assert Reply("", code, enhanced).severity is Severity(severity)


@pytest.mark.parametrize(
    ("text", "wait_s"),
    [
        ("450 try again in 5 minutes", 300),
        ("450 Greylisted for 60 seconds", 60),
        ("450 wait 2 hours", 7_200),
        ("450 come back in 00:04:59", 299),
        ("450 bitte in 10 Minuten erneut versuchen", 600),
        ("450 попробуйте через 10 минут", 600),
        ("450 请30分钟后重试", 1_800),
        ("450 try again in 999999 hours", 86_400),
        ("450 try again in 0 seconds", None),
        ("450 try again in 3 lightyears", None),
        ("450 try again later", None),
    ],
)
def test_the_wait_that_a_reply_asks_for_is_read(text: str, wait_s: float | None) -> None:
    assert asked_wait_s(text) == wait_s


def test_a_retry_honours_the_wait_and_a_refusal_does_not() -> None:
    assert RULES.judge(Reply.parse("450 greylisted, try again in 5 minutes")).retry_after_s == 300
    assert RULES.judge(Reply.parse("550 5.1.1 user unknown, gone in 5 minutes")).retry_after_s is None


@pytest.mark.parametrize(
    "text",
    [
        "550 " + "mailbox " * 125_000,
        "550 " + "ip " * 350_000,
        "550 " + "a@" * 500_000,
        "550 " + "http://" * 150_000,
        "5.1." * 250_000,
        "550-5.1.1 " * 100_000,
        "1.1.1." * 170_000,
        "x" * 1_000_000,
        "in 1 " * 200_000,
        "550 " + "not listed, " * 80_000,
        "550 " + "message: " * 100_000,
        "550 " + "::1:" * 250_000,
        "550 " + "a:" * 500_000,
        "b'" + "\\\\x41" * 250_000,
        "550 " + "&#65;" * 200_000,
        "550 " + "Ã¤" * 500_000,
        "\u0301" * 1_000_000,
    ],
    ids=lambda text: text[:12],
)
def test_a_hostile_megabyte_is_judged_at_once(text: str) -> None:
    began = time.thread_time()
    RULES.judge(Reply.parse(text))
    assert time.thread_time() - began < 0.5


@given(st.text(), st.sampled_from([None, *Stage]))
def test_every_text_gets_a_judgement(text: str, stage: Stage | None) -> None:
    judgement = RULES.judge(Reply.parse(text, stage=stage))
    assert judgement.why
    assert judgement.rule
