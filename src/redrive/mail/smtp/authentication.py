"""SMTP AUTH: which mechanism to use, and what to say at each step. Never does I/O.

CRAM-MD5 before PLAIN before LOGIN: the first never shows the password. The other two are used without
TLS only where the relay allows it. Known weakness: a server that offers CRAM-MD5 but cannot do it
refuses us; `auth=plain` in the relay's URL is the way round.
"""

from __future__ import annotations

import hmac
from base64 import b64decode, b64encode
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from redrive.mail.smtp.errors import AuthenticationFailed, ProtocolError, SmtpPhase

_SAFEST_FIRST = ("CRAM-MD5", "PLAIN", "LOGIN")
_SHOWS_PASSWORD = frozenset({"PLAIN", "LOGIN"})


@dataclass(frozen=True, slots=True)
class SmtpCredentials:
    """Who we are."""

    user: str
    password: str = field(repr=False)


def choose(offered: AbstractSet[str], wanted: str | None, *, may_show_password: bool) -> str:
    """The mechanism to use, or AuthenticationFailed when none is both offered and safe here."""
    usable = [name for name in ((wanted,) if wanted else _SAFEST_FIRST) if name in offered]
    if not usable:
        names = ", ".join(sorted(offered)) or "nothing"
        raise _failed(f"the server offers {names} for AUTH and we want {wanted or ', '.join(_SAFEST_FIRST)}")
    for name in usable:
        if may_show_password or name not in _SHOWS_PASSWORD:
            return name
    raise _failed(
        f"{usable[0]} would show the password on a connection without TLS: "
        "use smtps:// or smtp+starttls://, or say auth_without_tls=on"
    )


def first_line(mechanism: str, credentials: SmtpCredentials) -> bytes:
    """The AUTH command, with the initial response where the mechanism has one."""
    if mechanism == "PLAIN":
        return b"AUTH PLAIN " + _encoded(f"\x00{credentials.user}\x00{credentials.password}".encode())
    return f"AUTH {mechanism}".encode("ascii")


def next_line(mechanism: str, step: int, challenge: bytes, credentials: SmtpCredentials) -> bytes:
    """The answer to the server's challenge number `step`, counted from 0."""
    user, password = credentials.user.encode(), credentials.password.encode()
    if mechanism == "LOGIN" and step < 2:
        return _encoded((user, password)[step])
    if mechanism == "CRAM-MD5" and step == 0:
        digest = hmac.new(password, _decoded(challenge), "md5").hexdigest()
        return _encoded(user + b" " + digest.encode("ascii"))
    raise _odd(f"asked for more than {mechanism} has to say")


def _encoded(value: bytes) -> bytes:
    return b64encode(value)


def _decoded(challenge: bytes) -> bytes:
    try:
        return b64decode(challenge, validate=True)
    except ValueError as error:
        raise _odd("sent an AUTH challenge that is not base64") from error


def _odd(what: str) -> ProtocolError:
    return ProtocolError(f"the server {what}; the connection was closed", phase=SmtpPhase.AUTH)


def _failed(problem: str) -> AuthenticationFailed:
    return AuthenticationFailed(problem, phase=SmtpPhase.AUTH)
