"""A mail as people submit it, in Python and as JSON.

Holds what was said, unchecked: `checked.check` finds what is wrong with it. On the wire names are
camelCase, unknown fields are refused and an attachment's content is base64. It never holds how long the
mail may be tried or who submitted it: those belong to the message that carries it.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec

from redrive.core.errors import InvalidMessage
from redrive.core.failure import clip
from redrive.core.redaction import printable

_SHOWN_PROBLEMS = 5
_SHOWN_LENGTH = 300
_MAIL_ID = re.compile(r"[A-Za-z0-9._-]{1,128}")
_PLACE = re.compile(r"(.*?)(?: - at (?:key in )?`\$\.?(.*)`)?", re.DOTALL)


class Problem(NamedTuple):
    """What is wrong with one field, by its name on the wire: `to[3]`, `attachments[0].content`."""

    field: str
    problem: str


class InvalidMail(InvalidMessage):
    """A mail that cannot be accepted, with everything that is wrong with it."""

    def __init__(self, problems: Sequence[Problem], index: int | None = None) -> None:
        self.problems = tuple(problems)
        shown = [f"{field} {problem}".strip() for field, problem in self.problems[:_SHOWN_PROBLEMS]]
        if len(self.problems) > _SHOWN_PROBLEMS:
            shown.append(f"and {len(self.problems) - _SHOWN_PROBLEMS} more")
        super().__init__("; ".join(shown), index)


class Attachment(
    msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True, omit_defaults=True
):
    """A file that goes along. `content` is base64; with a `content_id` the HTML may show it (`cid:`)."""

    filename: str
    content: str
    content_type: str = "application/octet-stream"
    content_id: str | None = None

    @classmethod
    def of(
        cls, filename: str, data: bytes, content_type: str = "application/octet-stream", **more: str
    ) -> Attachment:
        """An attachment of bytes."""
        return cls(filename=filename, content=b64encode(data).decode(), content_type=content_type, **more)


class Mail(
    msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True, omit_defaults=True
):
    """A mail. An address is `local@domain` or `Name <local@domain>`; one text is one address."""

    from_: str = msgspec.field(name="from")
    to: str | Sequence[str] = ()
    cc: str | Sequence[str] = ()
    bcc: str | Sequence[str] = ()
    reply_to: str | Sequence[str] = ()
    subject: str = ""
    text: str | None = None
    html: str | None = None
    headers: Mapping[str, str] = {}
    attachments: Sequence[Attachment] = ()
    list_unsubscribe: str | Sequence[str] = ()
    tags: Sequence[str] = ()


_DECODER = msgspec.json.Decoder(Mail)


def decode(document: bytes) -> Mail:
    """The mail of a JSON document, or InvalidMail naming the field that does not fit."""
    try:
        return _DECODER.decode(document)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidMail([_decoding_problem(error)]) from None


def encode(mail: Mail) -> bytes:
    """The mail as JSON; fields that were not given are left out."""
    return msgspec.json.encode(mail)


def make_message_id(mail_id: str, from_domain: str) -> str:
    """The Message-ID of a mail: the same at every attempt, so that a doubled mail can be recognised."""
    if not _MAIL_ID.fullmatch(mail_id):
        raise ValueError("a mail's id is 1-128 of A-Z a-z 0-9 . _ -")
    return f"<{mail_id}@{from_domain}>"


def _decoding_problem(error: Exception) -> Problem:
    if not isinstance(error, msgspec.ValidationError):
        return Problem("", "the document is not JSON in UTF-8, or too deep: send one JSON object")
    found = _PLACE.fullmatch(printable(clip(str(error), _SHOWN_LENGTH)))
    problem, field = (found[1], found[2] or "") if found else ("does not fit", "")
    return Problem(field, problem[:1].lower() + problem[1:])
