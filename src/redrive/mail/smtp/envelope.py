"""One mail on its way: who from, who to, which bytes; what the server offers; and what goes onto the wire.

An Envelope cannot exist with an address or a content that would break out of its place in the dialogue. The
content is already rendered: CRLF line ends, no bare CR or LF. What a server offers is learned again after
STARTTLS, never carried across it. Known weakness: lines longer than the 998 bytes of RFC 5322 are the
renderer's to avoid; they are sent as they are.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from msgspec import Struct

from redrive.mail.smtp.errors import InvalidEnvelope, Unsupported
from redrive.mail.smtp.reply_parser import ServerReply

MAX_RECIPIENTS = 1_000
MAX_COMMAND = 512

_FORBIDDEN = re.compile("[\\x00-\\x20\\x7f-\\xa0<>\u2028\u2029\ud800-\udfff]")
_ADDRESS_ROOM = MAX_COMMAND - len("MAIL FROM:<>\r\n")


@dataclass(frozen=True, slots=True)
class Capabilities:
    """The extensions we use. `size`: the largest message, None where the server names no limit."""

    pipelining: bool = False
    starttls: bool = False
    size_offered: bool = False
    size: int | None = None
    eight_bit_mime: bool = False
    smtputf8: bool = False
    enhanced_status_codes: bool = False
    mechanisms: frozenset[str] = frozenset()

    @classmethod
    def parse(cls, reply: ServerReply) -> Capabilities:
        """From the reply to EHLO; its first line is the server's name. Unknown extensions are ignored."""
        offered = dict(_extensions(reply.lines[1:]))
        size = offered.get("SIZE", [])
        limit = int(size[0]) if size and size[0].isascii() and size[0].isdigit() else 0
        return cls(
            pipelining="PIPELINING" in offered,
            starttls="STARTTLS" in offered,
            size_offered="SIZE" in offered,
            size=limit or None,
            eight_bit_mime="8BITMIME" in offered,
            smtputf8="SMTPUTF8" in offered,
            enhanced_status_codes="ENHANCEDSTATUSCODES" in offered,
            mechanisms=frozenset(offered.get("AUTH", [])),
        )


def _extensions(lines: Iterable[bytes]) -> Iterable[tuple[str, list[str]]]:
    """Keyword and parameters; `AUTH=LOGIN`, as some old servers write it, is AUTH too."""
    for line in lines:
        words = line.decode("ascii", "replace").upper().replace("AUTH=", "AUTH ", 1).split()
        if words:
            yield words[0], words[1:]


class Envelope(Struct, frozen=True):
    """`sender` may be empty (a bounce). `eight_bit` is implied by content that is not ASCII."""

    sender: str
    recipients: tuple[str, ...]
    content: bytes
    smtputf8: bool = False
    eight_bit: bool = False

    def __post_init__(self) -> None:
        if not 1 <= len(self.recipients) <= MAX_RECIPIENTS:
            raise InvalidEnvelope(
                f"an envelope has 1 to {MAX_RECIPIENTS} recipients, not {len(self.recipients)}: split it"
            )
        if self.sender:
            _check_address("sender", self.sender, self.smtputf8)
        for recipient in self.recipients:
            _check_address("recipient", recipient, self.smtputf8)
        ends = self.content.count(b"\r\n")
        if self.content.count(b"\n") != ends or self.content.count(b"\r") != ends:
            raise InvalidEnvelope("the content has a bare CR or LF: end every line with CRLF")


def _check_address(role: str, address: str, smtputf8: bool) -> None:
    if not address or _FORBIDDEN.search(address):
        raise InvalidEnvelope(
            f"the {role} is empty or has a space, a control character, < or >: give a bare address"
        )
    if not smtputf8 and not address.isascii():
        raise InvalidEnvelope(f"the {role} is not ASCII: it can only be sent with smtputf8")
    if len(address.encode()) > _ADDRESS_ROOM:
        raise InvalidEnvelope(f"the {role} is longer than a command line holds ({_ADDRESS_ROOM} bytes)")


def mail_command(envelope: Envelope, offered: Capabilities) -> bytes:
    """MAIL FROM with the parameters that the message needs; Unsupported when one is not offered."""
    size = len(envelope.content)
    parts = [f"MAIL FROM:<{envelope.sender}>"]
    if offered.size is not None and size > offered.size:
        raise Unsupported(
            "SIZE",
            f"the mail has {size:,} bytes and the server takes at most {offered.size:,}: make it smaller",
        )
    if offered.size_offered:
        parts.append(f"SIZE={size}")
    if envelope.eight_bit or not envelope.content.isascii():
        if not offered.eight_bit_mime:
            raise _not_offered("8BITMIME", "render it as 7 bit")
        parts.append("BODY=8BITMIME")
    if envelope.smtputf8:
        if not offered.smtputf8:
            raise _not_offered("SMTPUTF8", "use ASCII addresses and headers")
        parts.append("SMTPUTF8")
    return (" ".join(parts) + "\r\n").encode()


def recipient_command(recipient: str) -> bytes:
    """RCPT TO, for a checked address."""
    return f"RCPT TO:<{recipient}>\r\n".encode()


def stuffed(content: bytes) -> bytes:
    """The content as DATA carries it: each leading dot doubled, the last line ended, no final dot yet."""
    if b"\r\n." in content:
        content = content.replace(b"\r\n.", b"\r\n..")
    if content.startswith(b"."):
        content = b"." + content
    return content if content.endswith(b"\r\n") else content + b"\r\n"


def _not_offered(feature: str, remedy: str) -> Unsupported:
    return Unsupported(feature, f"the mail needs {feature}, which the server does not offer: {remedy}")
