"""How a hand-over by SMTP can go wrong, other than by a server's answer to an envelope.

What a server answered to MAIL, RCPT, DATA or the final dot is data (`transaction.RecipientReply`), not
an exception. An exception says at which phase it happened and, above all, whether the final dot had
been written (`after_dot`): only then may the server have accepted what it never confirmed.
No error holds a password or the content of a mail.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from redrive.core.errors import RedriveError
from redrive.core.redaction import printable

if TYPE_CHECKING:
    from redrive.mail.smtp.transaction import RecipientReply

_TEXT_LENGTH = 500


class SmtpPhase(StrEnum):
    """What the server was to answer next. FINAL is after the final dot."""

    CONNECT = "connect"
    GREETING = "greeting"
    EHLO = "ehlo"
    STARTTLS = "starttls"
    AUTH = "auth"
    READY = "ready"
    RESET = "reset"
    MAIL = "mail"
    RCPT = "rcpt"
    DATA = "data"
    FINAL = "final"
    QUIT = "quit"


class SmtpError(RedriveError):
    """The root of what a hand-over may raise. `code`, `enhanced`, `text`: the server's words, if any.

    `recipients` are those that the server had refused by then: their fate is known, the others' is not.
    """

    def __init__(
        self,
        problem: str,
        *,
        phase: SmtpPhase,
        after_dot: bool = False,
        code: int | None = None,
        enhanced: str | None = None,
        text: str = "",
        recipients: tuple[RecipientReply, ...] = (),
    ) -> None:
        self.recipients = recipients
        self.problem, self.phase, self.after_dot = problem, phase, after_dot
        self.code, self.enhanced, self.text = code, enhanced, text
        said = f": {code} {printable(text)[:_TEXT_LENGTH]}" if code is not None else ""
        uncertain = "; the final dot was sent, so it may have been accepted" if after_dot else ""
        super().__init__(f"{problem} (phase {phase}){said}{uncertain}")


class Unreachable(SmtpError):
    """No connection: the name does not resolve, or no address answers. The cause has the details."""


class Dropped(SmtpError):
    """The connection ended before the server had answered everything."""


class TimedOut(SmtpError):
    """The server did not answer in the time its phase has; the connection was closed."""


class ProtocolError(SmtpError):
    """The server sent what is not SMTP, or an answer that does not fit; the connection was closed."""


class Refused(SmtpError):
    """The server refused us before any envelope: at the greeting, at EHLO, or at STARTTLS for now."""


class TlsFailed(SmtpError):
    """No trustworthy TLS: not offered, refused for good, or the certificate or handshake is bad. Never
    downgraded. A connection lost during the handshake is not this but Dropped or Unreachable."""


class AuthenticationFailed(SmtpError):
    """The server refused our credentials, or offers no way of giving them that is safe here."""


class Unsupported(SmtpError):
    """The message needs what this server does not offer (`feature`); nothing was written."""

    def __init__(self, feature: str, problem: str) -> None:
        self.feature = feature
        super().__init__(problem, phase=SmtpPhase.MAIL)


class InvalidEnvelope(SmtpError):
    """An envelope that may not be written to a server: an address or a content that would break out."""

    def __init__(self, problem: str) -> None:
        super().__init__(problem, phase=SmtpPhase.MAIL)
