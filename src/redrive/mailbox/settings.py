"""How a mailbox behaves towards everyone, and how much it keeps. All of it can be left as it is."""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field
from pathlib import Path

from redrive.core.errors import ConfigurationError

_MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class MailboxUser:
    """The one user that is let in."""

    user: str
    password: str = field(repr=False)

    @classmethod
    def parse(cls, text: str) -> MailboxUser:
        """From `user:password`; the password may hold colons."""
        user, colon, password = text.partition(":")
        if not (user and colon and password):
            raise ConfigurationError("the mailbox's credentials cannot be read: write user:password")
        return cls(user, password)


@dataclass(frozen=True, slots=True, kw_only=True)
class MailboxSettings:
    """What a whole mailbox does.

    Without `require_auth` nobody has to log in, and whoever does is let in; `reject_auth` lets nobody in.
    With `tls`, STARTTLS is offered, and AUTH only after it. A connection that is silent for `idle_s` is
    closed, also one that hangs because an address asked for it.
    """

    require_auth: MailboxUser | None = None
    reject_auth: bool = False
    tls: ssl.SSLContext | None = None
    max_messages_per_connection: int | None = None
    pipelining: bool = True
    size_bytes: int = 25 * _MIB
    recipients: int = 1_000
    idle_s: float = 900.0
    keep_messages: int = 100_000
    keep_bytes: int = 128 * _MIB
    keep_attempts: int = 100_000

    def __post_init__(self) -> None:
        for name in (
            "max_messages_per_connection",
            "size_bytes",
            "recipients",
            "idle_s",
            "keep_messages",
            "keep_bytes",
            "keep_attempts",
        ):
            value = getattr(self, name)
            if value is not None and value <= 0:
                raise ConfigurationError(f"the mailbox's {name} is {value}: it must be more than 0")


def server_tls(certificate: Path, key: Path) -> ssl.SSLContext:
    """The TLS side of a server, from two PEM files."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(certificate, key)
    except (OSError, ssl.SSLError) as error:
        raise ConfigurationError(
            f"the certificate {certificate} with the key {key} cannot be used ({error.strerror or error}): "
            "give two PEM files that belong together"
        ) from error
    return context
