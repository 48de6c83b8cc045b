"""The table of rules: every rule by an example, and where its tries end."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from redrive.core.failure import Kind
from redrive.mail.judging.replies import Action, Reply, Stage
from redrive.mail.judging.rule_file import default_table
from redrive.mail.judging.rules import Rules, markdown_table

PAGE = Path(__file__).parents[2] / "docs" / "mail-errors.md"
RULES = Rules.default()

EXAMPLES: dict[str, Reply | str] = {
    "lost-after-final-dot": Reply("[Errno 104] Connection reset by peer", stage=Stage.FINAL),
    "lost-after-final-dot-relay": "lost connection with mx while sending end of data",
    "null-mx": "556 5.1.10 Recipient address has null MX",
    "resolver-passing": "[Errno -3] Temporary failure in name resolution",
    "no-such-domain": "[Errno -2] Name or service not known",
    "tls": "[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: certificate has expired",
    "smtputf8-missing": "553 5.6.7 SMTPUTF8 is required but not offered",
    "auth-missing": "SMTP AUTH extension not supported by server",
    "connection": "[Errno 111] Connection refused",
    "connection-error": Reply("", name="ConnectionResetError"),
    "auth-refused": Reply("535 5.7.8 bad", 535, "5.7.8", Stage.AUTH),
    "auth-passing": Reply("454 4.7.0 not now", 454, "4.7.0", Stage.AUTH),
    "greeting-refused": Reply("554 mx.example.com", 554, stage=Stage.GREETING),
    "reused-connection": Reply("503 5.5.1 Bad sequence", 503, "5.5.1", reused=True),
    "ses-daily-quota": "Throttling: Daily message quota exceeded.",
    "ses-throttled": "TooManyRequestsException: Too many requests",
    "ses-smtp-daily-quota": "454 Throttling failure: Daily message quota exceeded.",
    "ses-smtp-throttled": "454 Throttling failure: Maximum sending rate exceeded.",
    "ses-limit": "LimitExceededException: too many",
    "ses-not-verified": "An error occurred (MessageRejected) when calling SendEmail: not verified",
    "ses-mail-from": "MailFromDomainNotVerified",
    "ses-rejected": "MessageRejected",
    "ses-paused": "SendingPausedException: paused",
    "ses-configuration": "NotFoundException: no such template",
    "ses-bad-request": "BadRequestException: illegal address",
    "ses-credentials": "SignatureDoesNotMatch",
    "login-error": "SMTPAuthenticationError: (535, b'no')",
    "ses-read-timeout": "ReadTimeoutError: endpoint",
    "ses-unavailable": "ServiceUnavailable",
    "http-unavailable": "503 Service Unavailable",
    "microsoft-recipient": "550 5.4.1 Recipient address rejected: Access denied.",
    "microsoft-banned-address": "550 5.7.606 Access denied, banned sending IP [192.0.2.9]",
    "microsoft-network-blocked": "550 5.7.1 Unfortunately, messages were not sent (S3140).",
    "microsoft-limits": "451 4.7.500 Server busy. Please try again later",
    "microsoft-recipient-limits": "554 5.2.122 The recipient has exceeded their limit per hour.",
    "microsoft-banned-sender": "550 5.1.8 Access denied, bad outbound sender",
    "microsoft-restricted-recipient": "550 5.7.133 RESOLVER.RST.SenderNotAuthenticatedForGroup",
    "sender-authentication": "421 4.7.26 This mail is unauthenticated",
    "yahoo-refused": "421 4.7.1 [TS03] All messages from 192.0.2.9 will be permanently deferred",
    "yahoo-deferred": "421 4.7.0 [TSS04] Messages from 192.0.2.9 temporarily deferred",
    "isp-block-token": "554 comcast block, see http://example.net/codes#BL000001",
    "netease-slow": "554 MI:SFQ 163 smtp",
    "apple-local-policy": "554 5.7.1 [CS01] Message rejected due to local policy.",
    "qq-recipient-flooded": "550 Mailbox unavailable or access denied",
    "too-many-unknown": "550 Too many unknown recipients",
    "blocked-address": "554 5.7.1 Client host [192.0.2.9] blocked using zen.spamhaus.org",
    "blocked-address-or-domain": "550 Your IP or your domain is listed by Spamhaus",
    "final-for-our-address": "554 5.7.1 IP 192.0.2.9 permanently blocked",
    "loop-passing": "450 4.4.6 Routing loop detected",
    "loop": "554 5.4.6 Too many hops",
    "too-many-recipients": "452 4.5.3 Too many recipients",
    "final-passing-unknown": "450 4.1.1 <a@example.com>: User unknown",
    "lookup-failed": "550 5.4.3 name server did not respond: SERVFAIL",
    "directory-failed": "550 5.1.0 LDAP lookup failed",
    "sender-refused": "553 5.1.8 Sender address rejected: Domain not found",
    "unknown-user": "550 No such user here",
    "passing-disabled-user": "450 account is disabled",
    "our-account-stopped": "554 Your account is suspended",
    "disabled-user": "550 5.2.1 The email account that you tried to reach is disabled",
    "no-domain": "550 5.4.4 Host not found",
    "lookup-failed-somewhere": "550 lookup failure",
    "never-retry": "554 do not retry",
    "mailbox-full": "552 Mailbox full",
    "relay-refused": "554 5.7.1 Relay access denied",
    "relay-refused-passing": "454 4.7.1 Relay access denied",
    "login-refused": "550 Authentication required",
    "rate-of-recipient": "550 The user is receiving mail at a rate that prevents delivery",
    "rate-of-ours": "421 Too many connections from your IP",
    "rate": "550 Sender frequency limited",
    "greylisted": "451 4.7.1 Greylisted, please come back in 00:04:59",
    "listed-domain": "550 5.7.1 Your mail contains a link listed by SURBL",
    "content-in-4xx": "451 4.7.1 Virus found, message rejected",
    "reputation-passing": "451 4.7.1 poor reputation",
    "bad-reputation": "550 Message rejected due to sender IP reputation",
    "reputation": "550 Your IP is not welcome here",
    "temporary": "550 Temporary problem",
    "size": "552 Message size exceeds fixed limit",
    "authentication": "550 5.7.1 Rejected by DMARC policy",
    "authentication-passing": "450 4.7.1 Client host rejected: cannot find your reverse hostname",
    "blocked-by-recipient": "550 5.7.1 Recipient does not want your mail",
    "unreachable": "554 Message expired, connection refused",
    "spam-from-our-address": "550 Junk seen lately, 192.0.2.9",
    "content": "554 5.7.1 Spam message rejected",
    "try-again": "550 Internal error",
    "our-address-refused": "550 Sorry, 192.0.2.9",
    "refused-message": "550 Denied by policy",
    "enhanced-unknown-user": "550 5.1.1 no",
    "enhanced-sender": "553 5.1.7 no",
    "enhanced-disabled": "550 5.2.1 no",
    "enhanced-mailbox-full": "550 5.2.2 no",
    "enhanced-size": "552 5.3.4 no",
    "enhanced-system-full": "554 5.3.1 no",
    "enhanced-misconfigured": "554 5.3.5 no",
    "enhanced-loop": "554 5.4.6 no",
    "enhanced-no-route": "550 5.4.310 no",
    "enhanced-network": "554 5.4.7 no",
    "enhanced-recipients": "550 5.5.3 no",
    "enhanced-protocol": "503 5.5.1 no",
    "enhanced-media": "554 5.6.0 no",
    "enhanced-login": "550 5.7.8 no",
    "enhanced-owner-changed": "550 5.7.17 no",
    "code-421": "421 bye",
    "code-session-limit": "432 no",
    "code-455": "455 no",
    "code-555": Reply("555 no", 555, stage=Stage.MAIL),
    "code-4xx": "451 no",
    "code-50x": "500 no",
    "code-domain": "521 no",
    "code-login": "535 no",
    "code-550-recipient": Reply("550 no", 550, stage=Stage.RCPT),
    "code-550": "550 no",
    "code-recipient": "551 no",
    "code-5xx": "554 no",
    "no-code": "something odd",
}


def test_every_rule_has_an_example() -> None:
    assert EXAMPLES.keys() == {rule.id for rule in default_table().rules}


@pytest.mark.parametrize("rule", EXAMPLES)
def test_the_example_is_judged_by_its_rule(rule: str) -> None:
    example = EXAMPLES[rule]
    reply = Reply.parse(example) if isinstance(example, str) else example
    assert RULES.judge(reply).rule == rule


@pytest.mark.parametrize("code", ["421", "450", "451", "452", "Throttling", "ServiceUnavailable"])
def test_what_is_retryable_by_its_code_is_retried_where_nothing_finer_applies(code: str) -> None:
    assert RULES.judge(Reply.parse(code)).kind is Kind.TEMPORARY


@pytest.mark.parametrize(
    "code",
    [
        *("500", "501", "502", "503", "550", "551", "552", "553", "554"),
        *("MessageRejected", "MailFromDomainNotVerified"),
    ],
)
def test_what_is_permanent_by_its_code_is_given_up_where_nothing_finer_applies(code: str) -> None:
    assert RULES.judge(Reply.parse(code)).kind is Kind.PERMANENT


@pytest.mark.parametrize(
    "rule",
    [
        *("temporary", "try-again", "reputation", "bad-reputation", "our-address-refused", "unreachable"),
        *(
            "spam-from-our-address",
            "lookup-failed",
            "directory-failed",
            "qq-recipient-flooded",
            "netease-slow",
        ),
    ],
)
def test_a_broad_rule_that_retries_a_5xx_ends(rule: str) -> None:
    example = EXAMPLES[rule]
    assert isinstance(example, str)
    assert RULES.judge(replace(Reply.parse(example), attempts=12)).kind is Kind.PERMANENT


def test_bounded_tries_end_in_what_the_rule_says() -> None:
    reply = Reply.parse("450 4.1.1 user unknown")
    first, last = RULES.judge(reply), RULES.judge(replace(reply, attempts=3))
    assert (first.action, first.tries, first.then) == (Action.RETRY, 3, Action.FAIL_RECIPIENT)
    assert (last.action, last.then, last.suppress) == (Action.FAIL_RECIPIENT, None, True)


def test_a_full_mailbox_fails_in_the_end_without_suppressing_the_address() -> None:
    last = RULES.judge(replace(Reply.parse("552 5.2.2 mailbox full"), attempts=99))
    assert (last.action, last.suppress) == (Action.FAIL_RECIPIENT, False)


def test_the_documentation_shows_the_table() -> None:
    assert markdown_table() in PAGE.read_text("utf-8")
