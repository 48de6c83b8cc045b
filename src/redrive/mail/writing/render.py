"""From a Checked mail to the bytes that are sent (RFC 5322): the same bytes for the same mail, always.

Every line ends in CRLF and has at most 998 bytes; bodies are 7 bit, and headers too unless an address
needs SMTPUTF8. Blind copies are never in it. Who made the Message-ID and the date has to keep them: they
are the same at every attempt. Never checks a mail: that has been done, and nothing here can refuse one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import format_datetime
from hashlib import blake2b

from redrive.mail.writing.addresses import Address
from redrive.mail.writing.checking import Checked
from redrive.mail.writing.header_text import fold, unstructured
from redrive.mail.writing.parts import Part, file_part, multipart, text_part

_MESSAGE_ID = re.compile(r"<[^\s<>@\x00-\x20\x7f-\xa0]{1,256}@[^\s<>@\x00-\x20\x7f-\xa0]{1,256}>")


@dataclass(frozen=True, slots=True)
class Rendered:
    """A mail ready to be stored. `authors`: everyone whom a reader may take it to be from.

    `smtputf8` is what the content needs, a recipient may need it too.
    """

    sender: Address
    authors: tuple[Address, ...]
    recipients: tuple[Address, ...]
    message_id: str
    subject: str
    tags: tuple[str, ...]
    content: bytes
    smtputf8: bool

    @property
    def eight_bit(self) -> bool:
        """The content needs 8BITMIME."""
        return not self.content.isascii()


def render(checked: Checked, *, message_id: str, date: datetime) -> Rendered:
    """The mail as bytes. `date` is aware."""
    if not _MESSAGE_ID.fullmatch(message_id):
        raise ValueError("message_id is not <left@right>: make it with make_message_id")
    if date.tzinfo is None:
        raise ValueError("date has no time zone: give an aware datetime")
    body = _body(checked, message_id)
    head = [*_headers(checked, message_id, date), "MIME-Version: 1.0\r\n", body.head, "\r\n"]
    content = "".join(head).encode() + body.body
    return Rendered(
        checked.sender,
        _authors(checked),
        checked.recipients,
        message_id,
        checked.subject,
        checked.tags,
        content,
        checked.smtputf8,
    )


def _authors(checked: Checked) -> tuple[Address, ...]:
    named = [value for name, value in checked.headers if name.lower() == "sender"]
    return (checked.sender, *(value for value in named if isinstance(value, Address)))


def _headers(checked: Checked, message_id: str, date: datetime) -> list[str]:
    lines = [_address_list("From", (checked.sender,))]
    for name, addresses in (("To", checked.to), ("Cc", checked.cc), ("Reply-To", checked.reply_to)):
        if addresses:
            lines.append(_address_list(name, addresses))
    lines.append(unstructured("Subject", checked.subject))
    lines.append(f"Date: {format_datetime(date.astimezone(UTC))}\r\n")
    lines.append(f"Message-ID: {message_id}\r\n")
    lines += _unsubscribe(checked.list_unsubscribe)
    for name, value in checked.headers:
        lines.append(unstructured(name, value) if isinstance(value, str) else _address_list(name, (value,)))
    return lines


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
