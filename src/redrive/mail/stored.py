"""A mail as its message carries it: the envelope, a few words for people, and the rendered bytes once.

A mail to one recipient is one message. A mail to many is a parent with the content and all recipients;
its children name one recipient each and no content. Never holds blind copies in the content.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from redrive.core.errors import InvalidMessage

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
        return "it is no mail; hand one in with redrive mail send"
    if not stored.to:
        return "it is a mail to nobody: name a recipient in to"
    if shared is not None and len(stored.to) != 1:
        return "it is one recipient's part of a mail: name one address in to"
    if stored.rendered() is None and shared is None:
        return "it is a mail without content"
    return None


def headers(body: bytes, given: Mapping[str, str]) -> dict[str, str]:
    """The headers of the message that carries a mail: whom it is to, or how many, beside those given."""
    to = decode(body).to
    kept = {name: value for name, value in given.items() if name not in ("to", "recipients")}
    return kept | ({"to": to[0]} if len(to) == 1 else {"recipients": str(len(to))})


def with_content(content: bytes) -> dict[str, str | bytes]:
    """The field that holds these bytes: readable where they are UTF-8."""
    try:
        return {"content": content.decode("utf-8")}
    except UnicodeDecodeError:
        return {"raw": content}
