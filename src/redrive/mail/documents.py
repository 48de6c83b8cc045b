"""A mail as every face shows it: its recipients, each with its state and attempts, and what was accepted.

Tracebacks and fingerprints of failures stay inside: whoever asks sees code and reason of each attempt. Which
addresses and reasons are masked is for the caller to say.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from redrive.core.failure import Failure
from redrive.core.letters import Account
from redrive.core.lifecycle import State
from redrive.core.values import instant
from redrive.mail.desk import MailStatus, Recipient, RecipientState

Masked = Callable[[str], str]


class MailAttempt(msgspec.Struct, frozen=True, rename="camel"):
    """One attempt: `sent`, or how it failed (temporary, permanent, uncertain, expired, lost)."""

    attempt: int
    timestamp: str | None
    result: str
    code: str | None = None
    reason: str | None = None


class RecipientDocument(msgspec.Struct, frozen=True, rename="camel"):
    """How far a mail is for one recipient; `nextAttemptAt` while it waits, `jobId` is its own message."""

    address: str
    status: RecipientState
    attempts: list[MailAttempt]
    next_attempt_at: str | None = None
    job_id: str | None = None


class MailDocument(msgspec.Struct, frozen=True, rename="camel"):
    """A mail and its recipients."""

    id: str
    company_id: str
    submitted_at: str | None
    expires_at: str | None
    recipients: list[RecipientDocument]


def mail_document(status: MailStatus, masked: Masked) -> MailDocument:
    """The mail, with addresses and reasons as `masked` shows them."""
    message, progress = status.account.message, status.current.progress
    return MailDocument(
        id=message.id,
        company_id=message.tenant,
        submitted_at=instant(message.enqueued_at),
        expires_at=instant(progress.expires_at),
        recipients=[_recipient(one, masked) for one in status.recipients],
    )


def _recipient(recipient: Recipient, masked: Masked) -> RecipientDocument:
    account, address = recipient.account, masked(recipient.address)
    if account is None:
        return RecipientDocument(address, recipient.state, [])
    return RecipientDocument(
        address,
        recipient.state,
        _attempts(account, masked),
        instant(account.progress.due_at) if account.state is State.WAITING else None,
        account.message.id,
    )


def _attempts(account: Account, masked: Masked) -> list[MailAttempt]:
    attempts = [_failed(failure, masked) for failure in account.failures]
    if account.state is State.DONE:
        attempts.append(MailAttempt(account.progress.attempts, instant(account.finished_at), "sent"))
    return attempts


def _failed(failure: Failure, masked: Masked) -> MailAttempt:
    reason = masked(failure.reason)
    return MailAttempt(failure.attempt, instant(failure.at), failure.kind.value, failure.code, reason)
