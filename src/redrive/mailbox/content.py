"""The content of a mail: unstuffed, checked as strictly as the standard reads, and its few headers read.

Works on bytes alone and in linear time; of the header only the first 64 KiB are read. Never parses MIME.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from email.errors import HeaderParseError
from email.header import decode_header, make_header

from redrive.mailbox.replies import BARE_LINE_END_IN_CONTENT, CONTENT_LINE_TOO_LONG, SimulatedReply

TENANT_HEADER = "X-Redrive-Tenant"
_LINE = 1_000  # with its CR LF, RFC 5321 4.5.3.1.6
_HEADER = 65_536
_FOLD = re.compile(rb"\r\n(?=[ \t])")
_TENANT = TENANT_HEADER.lower().encode("ascii")
_WANTED = frozenset({b"message-id", b"subject", _TENANT})


@dataclass(frozen=True, slots=True)
class Headers:
    """What the mailbox reads of a header; the first of several counts."""

    message_id: str | None
    subject: str
    tenant: str | None


def unstuffed(lines: bytes) -> bytes:
    """Content without the dots added for the transfer. `lines` begins with the CR LF that ended DATA."""
    return lines.replace(b"\r\n.", b"\r\n")[2:]


def problem(content: bytes) -> SimulatedReply | None:
    """Why content is refused: line ends that a mail may be smuggled through, or a line too long."""
    ends = content.count(b"\r\n")
    if content.count(b"\n") != ends or content.count(b"\r") != ends:
        return BARE_LINE_END_IN_CONTENT
    return CONTENT_LINE_TOO_LONG if _has_long_line(content) else None


def read_headers(content: bytes) -> Headers:
    """The Message-ID, subject and tenant of a mail, where it has them."""
    end = content.find(b"\r\n\r\n", 0, _HEADER)
    header = content[: end if end >= 0 else _HEADER]
    if b"\r\n " in header or b"\r\n\t" in header:
        header = _FOLD.sub(b"", header)
    found: dict[bytes, bytes] = {}
    for line in header.split(b"\r\n"):
        name, _, value = line.partition(b":")
        name = name.lower()
        if name in _WANTED:
            found.setdefault(name, value.strip())
    return Headers(
        _text(found.get(b"message-id")),
        _decoded(_text(found.get(b"subject")) or ""),
        _text(found.get(_TENANT)),
    )


def _has_long_line(content: bytes) -> bool:
    """From one line's end to the last that lies within the next 1,000 bytes, until none does."""
    start = 0
    while len(content) - start > _LINE:
        end = content.rfind(b"\n", start, start + _LINE)
        if end < 0:
            return True
        start = end + 1
    return False


def _text(value: bytes | None) -> str | None:
    return value.decode("utf-8", "replace") if value else None


def _decoded(subject: str) -> str:
    """The subject in words; as it stands where its encoding is broken."""
    if "=?" not in subject:
        return subject
    try:
        return str(make_header(decode_header(subject)))
    except (HeaderParseError, LookupError, ValueError):
        return subject
