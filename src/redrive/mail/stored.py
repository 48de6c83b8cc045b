"""A mail as its message carries it: the envelope, a few words for people, and the rendered bytes once.

A mail to one recipient is one message. A mail to many is a parent with the content and all recipients;
its children name one recipient each and no content. Never holds blind copies in the content.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from redrive.core.errors import InvalidMessage


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


def with_content(content: bytes) -> dict[str, str | bytes]:
    """The field that holds these bytes: readable where they are UTF-8."""
    try:
        return {"content": content.decode("utf-8")}
    except UnicodeDecodeError:
        return {"raw": content}
