"""A mail as its message carries it: the envelope, a few words for people, and the rendered bytes once.

A mail to one recipient is one message. A mail to many is a parent with the content and all recipients;
its children name one recipient each and no content. Never holds blind copies in the content.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from redrive.core.errors import InvalidMessage
from redrive.mail.writing.addresses import Address

QUEUE = "email:send"


class Stored(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The payload of `email:send`. `content` is text where it can be, `raw` (base64) where it cannot."""

    from_: str = msgspec.field(name="from")
    to: Sequence[str]
    message_id: str
    subject: str = ""
    tags: Sequence[str] = ()
    smtputf8: bool = False
    eight_bit: bool = False
    content: str | None = None
    raw: bytes | None = None

    def rendered(self) -> bytes | None:
        """The rendered mail; None in a child."""
        return self.raw if self.content is None else self.content.encode()

    def headers(self) -> dict[str, str]:
        """Whom it is to, or how many, for the headers of its message."""
        return {"to": self.to[0]} if len(self.to) == 1 else {"recipients": str(len(self.to))}


_DECODER = msgspec.json.Decoder(Stored)


def encode(stored: Stored) -> bytes:
    """The body of its message."""
    return msgspec.json.encode(stored)


def decode(body: bytes) -> Stored:
    """A parent's payload, or InvalidMessage when it cannot be read."""
    try:
        return _DECODER.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidMessage(f"the mail of this recipient cannot be read: {error}") from error


def problem(body: bytes, shared: bytes | None) -> str | None:
    """Why a body is no mail, given its parent's where it shares that one; None: it is one."""
    try:
        stored = _DECODER.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return "it is not a mail; submit one with redrive mail send"
    if not stored.to:
        return "it is a mail to nobody: name a recipient in to"
    if shared is not None and len(stored.to) != 1:
        return "it is one recipient's part of a mail: name one address in to"
    if stored.rendered() is None and shared is None:
        return "it is a mail without content"
    return None


def headers(body: bytes, given: Mapping[str, str]) -> dict[str, str]:
    """The headers of the message that carries a mail: whom it is to, or how many, beside those given."""
    kept = {name: value for name, value in given.items() if name not in ("to", "recipients")}
    return kept | decode(body).headers()


def store(
    content: bytes,
    sender: Address,
    recipients: Sequence[Address],
    message_id: str,
    subject: str,
    *,
    tags: Sequence[str] = (),
    smtputf8: bool,
) -> Stored:
    """A rendered mail, its content readable where it is UTF-8. `smtputf8` is what the content needs."""
    try:
        text, raw = content.decode("utf-8"), None
    except UnicodeDecodeError:
        text, raw = None, content
    return Stored(
        from_=sender.envelope,
        to=[one.envelope for one in recipients],
        message_id=message_id,
        subject=subject,
        tags=tags,
        smtputf8=smtputf8,
        eight_bit=not content.isascii(),
        content=text,
        raw=raw,
    )
