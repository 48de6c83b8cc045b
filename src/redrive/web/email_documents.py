"""Mails on the wire: what is handed in, what is answered, and how a mail's recipients stand.

Tracebacks and fingerprints of failures stay inside: a submitter sees code and reason of each attempt.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from redrive.core.failure import Failure
from redrive.core.letters import Account
from redrive.core.lifecycle import State
from redrive.mail.desk import MailStatus, Recipient, RecipientState
from redrive.mail.writing.mail import Mail
from redrive.office.documents.document import instant
from redrive.office.masking import Mask
from redrive.web.answers import MOST_S


class SubmittedMail(
    Mail, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True, omit_defaults=True
):
    """A mail to send. An address is `local@domain` or `Name <local@domain>`; one text is one address.

    `ttl`: after so many seconds it is not tried again.
    """

    ttl: Annotated[float, msgspec.Meta(gt=0, le=MOST_S)] | None = None


class SubmittedMails(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A batch of mails, accepted together or not at all."""

    emails: Annotated[list[SubmittedMail], msgspec.Meta(min_length=1, max_length=1_000)]


class AcceptedMail(msgspec.Struct, frozen=True):
    """A mail that is durably stored. `duplicate`: it was before, under the same Idempotency-Key."""

    id: str
    status: str
    recipients: list[str]


class AcceptedMails(msgspec.Struct, frozen=True):
    """A batch that is durably stored, in the order given."""

    emails: list[AcceptedMail]


class MailAttempt(msgspec.Struct, frozen=True, rename="camel"):
    """One attempt: `sent`, or how it failed (temporary, permanent, uncertain, expired, lost)."""

    attempt: int
    timestamp: str | None
    result: str
    code: str | None = None
    reason: str | None = None


class RecipientDocument(msgspec.Struct, frozen=True, rename="camel"):
    """How far a mail is for one recipient; `nextAttemptAt` while it waits."""

    address: str
    status: RecipientState
    attempts: list[MailAttempt]
    next_attempt_at: str | None = None


class MailDocument(msgspec.Struct, frozen=True, rename="camel"):
    """A mail and its recipients."""

    id: str
    submitted_at: str | None
    expires_at: str | None
    recipients: list[RecipientDocument]


SCHEMAS = (SubmittedMails, AcceptedMails, MailDocument)


def mail_document(status: MailStatus, mask: Mask) -> MailDocument:
    """The mail as a mask shows it."""
    message, progress = status.account.message, status.current.progress
    return MailDocument(
        id=message.id,
        submitted_at=instant(message.enqueued_at),
        expires_at=instant(progress.expires_at),
        recipients=[_recipient(one, mask) for one in status.recipients],
    )


def _recipient(recipient: Recipient, mask: Mask) -> RecipientDocument:
    account, address = recipient.account, mask.text(recipient.address)
    if account is None:
        return RecipientDocument(address, recipient.state, [])
    waits = account.state is State.WAITING
    return RecipientDocument(
        address,
        recipient.state,
        _attempts(account, mask),
        instant(account.progress.due_at) if waits else None,
    )


def _attempts(account: Account, mask: Mask) -> list[MailAttempt]:
    attempts = [_failed(failure, mask) for failure in account.failures]
    if account.state is State.DONE:
        attempts.append(MailAttempt(account.progress.attempts, instant(account.finished_at), "sent"))
    return attempts


def _failed(failure: Failure, mask: Mask) -> MailAttempt:
    reason = mask.text(failure.reason)
    return MailAttempt(failure.attempt, instant(failure.at), failure.kind.value, failure.code, reason)
