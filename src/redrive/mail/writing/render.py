"""From a Checked mail to the bytes that are sent (RFC 5322): the same bytes for the same mail, always.

Every line ends in CRLF and has at most 998 bytes; bodies are 7 bit, and headers too unless an address needs
SMTPUTF8. Blind copies are never in it. Who made the Message-ID and the date has to keep them: they are the
same at every attempt. Never checks a mail: that has been done, and nothing here can refuse one.

A body's part (RFC 2045, 2046) is its Content- lines and its bytes. Text is sent as it is where it may be,
otherwise in quoted-printable or base64, whichever is shorter; it always ends with a line break, like the
standard library's. Bare CR and LF in text are line breaks too. An attached mail that is not 7 bit yet is
read and written again by the standard package, which encodes its parts again.
"""

from __future__ import annotations

import re
from base64 import b64decode
from binascii import b2a_base64, b2a_qp
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from email import message_from_bytes
from email.errors import MessageError
from email.policy import SMTP
from email.utils import format_datetime
from functools import lru_cache
from hashlib import blake2b

from redrive.mail.writing.addresses import Address
from redrive.mail.writing.checked import Checked
from redrive.mail.writing.header_text import disposition, fold, unstructured
from redrive.mail.writing.mail import Attachment

_MESSAGE_ID = re.compile(r"<[^\s<>@\x00-\x20\x7f-\xa0]{1,256}@[^\s<>@\x00-\x20\x7f-\xa0]{1,256}>")

LONGEST_LINE = 998

_SEVEN_BIT = SMTP.clone(cte_type="7bit", refold_source="none")
_LINE_BREAK = re.compile(rb"\r\n|\r|\n")
_BASE64_LINE = 76
_QUOTED_PLAIN = bytes(byte for byte in range(0x20, 0x7F) if byte != ord("=")) + b"\t\n"


def render(checked: Checked, *, message_id: str, date: datetime) -> bytes:
    """The mail as bytes. `date` is aware."""
    if not _MESSAGE_ID.fullmatch(message_id):
        raise ValueError("message_id is not <left@right>: make it with make_message_id")
    if date.tzinfo is None:
        raise ValueError("date has no time zone: give an aware datetime")
    body = _body(checked, message_id)
    head = [*_headers(checked, message_id, date), "MIME-Version: 1.0\r\n", body.head, "\r\n"]
    return "".join(head).encode() + body.body


def _headers(checked: Checked, message_id: str, date: datetime) -> list[str]:
    lines = [_address_list("From", (checked.sender,))]
    for name, addresses in (("To", checked.to), ("Cc", checked.cc), ("Reply-To", checked.reply_to)):
        if addresses:
            lines.append(_address_list(name, addresses))
    lines.append(unstructured("Subject", checked.subject))
    lines.append(_date(date))
    lines.append(f"Message-ID: {message_id}\r\n")
    lines += _unsubscribe(checked.list_unsubscribe)
    for name, value in checked.headers:
        lines.append(unstructured(name, value) if isinstance(value, str) else _address_list(name, (value,)))
    return lines


@lru_cache(16)
def _date(date: datetime) -> str:
    """The same for every mail of a second."""
    return f"Date: {format_datetime(date.astimezone(UTC))}\r\n"


def _address_list(name: str, addresses: Sequence[Address]) -> str:
    return fold(name, ", ".join([address.header for address in addresses]))


def _unsubscribe(addresses: Sequence[str]) -> list[str]:
    """RFC 2369, and RFC 8058 where one click can do it."""
    if not addresses:
        return []
    lines = [fold("List-Unsubscribe", ", ".join([f"<{address}>" for address in addresses]))]
    if any(address.lower().startswith("https:") for address in addresses):
        lines.append("List-Unsubscribe-Post: List-Unsubscribe=One-Click\r\n")
    return lines


def _body(checked: Checked, message_id: str) -> Part:
    """mixed(alternative(text, related(html, inline files)), files), without the layers that hold one."""
    shown = checked.html is not None
    text = [] if checked.text is None else [text_part("plain", checked.text)]
    html = [] if checked.html is None else [text_part("html", checked.html)]
    inline = [file_part(one, "inline") for one in checked.attachments if shown and one.content_id]
    files = [file_part(one, "attachment") for one in checked.attachments if not (shown and one.content_id)]
    leaves = [*text, *html, *inline, *files]
    if len(leaves) == 1:
        return leaves[0]
    seal = _seal(message_id, leaves)
    if inline:
        html = [multipart("related", [*html, *inline], seal)]
    body = multipart("alternative", [*text, *html], seal) if text and html else (text or html)[0]
    return multipart("mixed", [body, *files], seal) if files else body


def _seal(message_id: str, leaves: Sequence[Part]) -> str:
    """What makes the boundaries unlike anything in the mail."""
    number = 0
    while True:
        seal = blake2b(f"{number} {message_id}".encode(), digest_size=12).hexdigest()
        if not any(seal.encode() in leaf.body for leaf in leaves):
            return seal
        number += 1


@dataclass(frozen=True, slots=True)
class Part:
    """`head` is whole lines; the blank line between head and body belongs to neither."""

    head: str
    body: bytes


def text_part(subtype: str, text: str) -> Part:
    """A text/plain or text/html part."""
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    if not text.endswith("\n"):
        text += "\n"
    if text.isascii() and max(map(len, text.split("\n"))) <= LONGEST_LINE:
        encoding, body = "7bit", text.replace("\n", "\r\n").encode("ascii")
    else:
        encoding, body = _shorter(text.encode())
    head = f'Content-Type: text/{subtype}; charset="utf-8"\r\nContent-Transfer-Encoding: {encoding}\r\n'
    return Part(head, body)


def file_part(attachment: Attachment, kind: str) -> Part:
    """An attachment; `kind` is its disposition, inline or attachment."""
    content_type, encoding = attachment.content_type, "base64"
    if content_type.lower().startswith("message/"):
        # RFC 2046 forbids base64 for message/rfc822, so it goes as 7 bit or as a file of no special type.
        body = _as_seven_bit(b64decode(attachment.content))
        if body is not None:
            return Part(_file_head(attachment, kind, content_type, "7bit"), body)
        content_type = "application/octet-stream"
    return Part(
        _file_head(attachment, kind, content_type, encoding), _in_lines(attachment.content.encode("ascii"))
    )


def multipart(subtype: str, parts: Sequence[Part], seal: str) -> Part:
    """Parts in one; no body among them may hold the seal."""
    boundary = f"=_{subtype}_{seal}"
    pieces = []
    for part in parts:
        pieces += [f"--{boundary}\r\n{part.head}\r\n".encode(), part.body, b"\r\n"]
    pieces.append(f"--{boundary}--\r\n".encode())
    return Part(f'Content-Type: multipart/{subtype};\r\n boundary="{boundary}"\r\n', b"".join(pieces))


def _file_head(attachment: Attachment, kind: str, content_type: str, encoding: str) -> str:
    identity = fold("Content-ID", f"<{attachment.content_id}>") if attachment.content_id else ""
    return (
        fold("Content-Type", content_type)
        + f"Content-Transfer-Encoding: {encoding}\r\n"
        + disposition(kind, attachment.filename)
        + identity
    )


def _shorter(data: bytes) -> tuple[str, bytes]:
    """Quoted-printable or base64 of text in UTF-8 with LF line ends."""
    encoded = b2a_base64(data.replace(b"\n", b"\r\n"), newline=False)
    if len(data) + 2 * len(data.translate(None, _QUOTED_PLAIN)) <= len(encoded):
        # Given a line break of its own it would take its soft line breaks from the first one it sees.
        quoted = b2a_qp(data, istext=True).replace(b"\n", b"\r\n")
        if len(quoted) <= len(encoded):
            return "quoted-printable", quoted
    return "base64", _in_lines(encoded) + b"\r\n"


def _in_lines(encoded: bytes) -> bytes:
    starts = range(0, len(encoded), _BASE64_LINE)
    return b"\r\n".join([encoded[start : start + _BASE64_LINE] for start in starts])


def _as_seven_bit(mail: bytes) -> bytes | None:
    """The mail in ASCII lines that are short enough, or None when that cannot be done."""
    mail = _LINE_BREAK.sub(b"\r\n", mail)
    if _fits(mail):
        return mail
    try:
        written = message_from_bytes(mail, policy=_SEVEN_BIT).as_bytes()
    except (MessageError, ValueError, LookupError, TypeError, AttributeError):
        return None
    return written if _fits(written) else None


def _fits(mail: bytes) -> bool:
    return mail.isascii() and b"\0" not in mail and max(map(len, mail.split(b"\r\n"))) <= LONGEST_LINE
