"""From a relay to a connection that may send: addresses, greeting, EHLO, STARTTLS, AUTH.

Each address of the host is tried in turn. TLS is as the relay says and is never downgraded; credentials
follow only after it: CRAM-MD5 before PLAIN before LOGIN, because the first never shows the password, and the
others without TLS only where the relay allows it. Whatever goes wrong, nothing stays open, and errors of the
system come out as SmtpError with their cause. Known weaknesses: mail exchangers are not looked up, a relay
is a host; a server that offers CRAM-MD5 but cannot do it refuses us, and `auth=plain` in the relay's URL is
the way round.
"""

from __future__ import annotations

import asyncio
import hmac
import re
import socket
import ssl
from base64 import b64decode, b64encode
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from redrive.core.settings import SmtpSettings
from redrive.mail.smtp.connection import Connection, Owner
from redrive.mail.smtp.dialogue import Answered, Meaning
from redrive.mail.smtp.errors import (
    AuthenticationFailed,
    Dropped,
    ProtocolError,
    Refused,
    SmtpError,
    SmtpPhase,
    TlsFailed,
    Unreachable,
)
from redrive.mail.smtp.relay import Relay, Tls
from redrive.mail.smtp.transaction import Sending

_HOST_NAME = re.compile(r"(?:[A-Za-z0-9-]{1,63}\.){1,10}[A-Za-z0-9-]{1,63}", re.ASCII)
_UNKNOWN_COMMAND = (500, 502, 504)

_SAFEST_FIRST = ("CRAM-MD5", "PLAIN", "LOGIN")
_SHOWS_PASSWORD = frozenset({"PLAIN", "LOGIN"})


class Alone:
    """The owner of a connection outside a pool: it never has more work."""

    def next_sending(self, connection: Connection) -> Sending | None:
        return None

    def released(self, connection: Connection) -> None:
        """Nothing to do."""

    def closed(self, connection: Connection) -> None:
        """Nothing to do."""


async def open_connection(
    relay: Relay,
    *,
    owner: Owner | None = None,
    settings: SmtpSettings | None = None,
    context: ssl.SSLContext | None = None,
) -> Connection:
    """A connection that is ready for its first envelope. `context` replaces the relay's own."""
    settings = settings or SmtpSettings()
    if context is None and relay.tls is not Tls.NONE:
        context = relay.tls_context()
    connection = Connection(owner or Alone(), settings)
    try:
        await _connect(connection, relay, context, settings)
        _require(await connection.exchange())
        await _introduce(connection, relay)
        if relay.tls is Tls.STARTTLS and context is not None:
            await _start_tls(connection, relay, context, settings)
        if relay.user is not None:
            await _authenticate(connection, relay, SmtpCredentials(relay.user, relay.password or ""))
        connection.require()
    except BaseException:
        connection.fail(Dropped, "could not be opened")
        raise
    return connection


async def _connect(
    connection: Connection, relay: Relay, context: ssl.SSLContext | None, settings: SmtpSettings
) -> None:
    loop = asyncio.get_running_loop()
    implicit = context if relay.tls is Tls.IMPLICIT else None
    failure: Exception | None = None
    for address in await _addresses(relay, settings.connect_s):
        try:
            async with asyncio.timeout(settings.connect_s):
                await loop.create_connection(
                    lambda: connection,
                    address,
                    relay.port,
                    ssl=implicit,
                    server_hostname=relay.host if implicit else None,
                )
        except OSError as error:
            if _is_distrust(error):
                raise _tls_failed(relay, error) from error
            failure = error
        else:
            return
    why = str(failure) or "no answer in time"
    raise Unreachable(f"{relay} cannot be connected to ({why})", phase=SmtpPhase.CONNECT) from failure


async def _addresses(relay: Relay, timeout_s: float) -> list[str]:
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(timeout_s):
            found = await loop.getaddrinfo(relay.host, relay.port, type=socket.SOCK_STREAM)
    except OSError as error:
        why = str(error) or "the resolver did not answer in time"
        raise Unreachable(f"{relay.host} cannot be resolved ({why})", phase=SmtpPhase.CONNECT) from error
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


async def _introduce(connection: Connection, relay: Relay) -> None:
    """EHLO; HELO only where neither TLS nor credentials depend on an extension."""
    name = relay.client_name or _own_name(connection)
    connection.dialogue.introduce(name)
    answered = await connection.exchange()
    plain = relay.tls is Tls.NONE and relay.user is None
    if plain and answered.reply.code in _UNKNOWN_COMMAND:
        connection.dialogue.introduce(name, "HELO")
        answered = await connection.exchange()
    _require(answered)


def _own_name(connection: Connection) -> str:
    """Our host's full name, or the address we come from: the resolver is not asked."""
    name = socket.gethostname()
    if _HOST_NAME.fullmatch(name):
        return name
    address = connection.own_address
    return f"[IPv6:{address}]" if ":" in address else f"[{address}]"


async def _start_tls(
    connection: Connection, relay: Relay, context: ssl.SSLContext, settings: SmtpSettings
) -> None:
    if not connection.dialogue.capabilities.starttls:
        raise TlsFailed(
            f"{relay} does not offer STARTTLS, which someone on the way may have removed: "
            "if it really has none, say smtp://…?starttls=off",
            phase=SmtpPhase.STARTTLS,
        )
    connection.dialogue.start_tls()
    _require(await connection.exchange())
    try:
        await connection.secure(context, relay.host, settings.connect_s)
    except OSError as error:
        if _is_distrust(error):
            raise _tls_failed(relay, error) from error
        raise Dropped(
            f"the connection was lost in the TLS handshake ({error})", phase=SmtpPhase.STARTTLS
        ) from error
    await _introduce(connection, relay)


async def _authenticate(connection: Connection, relay: Relay, credentials: SmtpCredentials) -> None:
    mechanism = choose(
        connection.dialogue.capabilities.mechanisms,
        relay.mechanism,
        may_show_password=relay.tls is not Tls.NONE or relay.may_show_password,
    )
    line, said, step = first_line(mechanism, credentials), [], 0
    while True:
        said.append(line)
        connection.dialogue.authenticate(line)
        answered = await connection.exchange()
        if answered.meaning is not Meaning.CONTINUE:
            break
        line = next_line(mechanism, step, answered.reply.lines[0], credentials)
        step += 1
    if answered.meaning is Meaning.REFUSED:
        raise _authentication_failed(relay, mechanism, answered, said)


def _authentication_failed(
    relay: Relay, mechanism: str, answered: Answered, said: list[bytes]
) -> AuthenticationFailed:
    """A server may repeat the line it did not like: what we said is cut out of what it says."""
    text = answered.reply.text
    for line in said:
        word = line.decode().rpartition(" ")[2]
        text = text if word == mechanism else text.replace(word, "***")
    return AuthenticationFailed(
        f"{relay} refused {mechanism} authentication",
        phase=SmtpPhase.AUTH,
        code=answered.reply.code,
        enhanced=answered.reply.enhanced,
        text=text,
    )


def _require(answered: Answered) -> None:
    if answered.meaning is not Meaning.REFUSED:
        return
    reply = answered.reply
    final = answered.phase is SmtpPhase.STARTTLS and reply.code >= 500
    kind: type[SmtpError] = TlsFailed if final else Refused
    raise kind(
        "the server refused us",
        phase=answered.phase,
        code=reply.code,
        enhanced=reply.enhanced,
        text=reply.text,
    )


def _is_distrust(error: OSError) -> bool:
    """Whether TLS itself failed, which time does not fix; a connection lost on the way is not that."""
    lost = isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError)
    return isinstance(error, ssl.SSLError) and not lost


def _tls_failed(relay: Relay, error: OSError) -> TlsFailed:
    why = str(error)
    if isinstance(error, ssl.SSLCertVerificationError):
        why = f"its certificate is not trusted: {error.verify_message}"
    return TlsFailed(f"no TLS with {relay}: {why}", phase=SmtpPhase.STARTTLS)


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
