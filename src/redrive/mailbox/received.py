"""What the mailbox keeps: a mail it received, and what came of each recipient it was asked for."""

from __future__ import annotations

from dataclasses import dataclass, field

from redrive.mailbox.behaviours import Point


@dataclass(frozen=True, slots=True)
class Received:
    """A mail as it came. `at` is in milliseconds since 1970; `content` has its dots unstuffed.

    `duplicate_of` is the id of an earlier mail with the same Message-ID to one of the same recipients.
    """

    id: int
    at: int
    sender: str
    recipients: tuple[str, ...]
    message_id: str | None
    subject: str
    tenant: str | None
    duplicate_of: int | None
    content: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Attempt:
    """One RCPT of a transaction and the last that was said about it: there, or after the content.

    `code` is None where the connection was closed or left hanging in place of an answer. A client that
    went away before it sent content leaves the answer to its RCPT; a sender refused at MAIL leaves an
    attempt without a recipient.
    """

    at: int
    sender: str
    recipient: str
    stage: Point
    code: int | None
    reply: str
    message_id: str | None = None
