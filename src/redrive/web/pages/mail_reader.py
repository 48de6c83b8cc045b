"""A mail as people read it: its headers, its text, its HTML. Whatever stands there is shown, never followed.

A mail may hold anything, so everything is bounded: how many headers and how much of each, how many parts and
how deep, how many lines. `parse_mail` still takes its time with a large one, and belongs into a thread.
Known weakness: parts in an unknown charset are read as UTF-8 with replacements; attachments are only named; a
mail with very many parts is read up to some of them.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from dataclasses import dataclass
from email.message import EmailMessage
from email.parser import BytesHeaderParser, BytesParser
from email.policy import EmailPolicy
from itertools import islice
from typing import Any, Final, cast

from redrive.core.redaction import printable
from redrive.mail.stored import QUEUE

_HEADERS: Final = 100
_HEADER: Final = 2_000
_TEXT: Final = 200_000
_ATTACHMENTS: Final = 100
_PARTS: Final = 500
_NESTED: Final = 30
_LINES: Final = 400_000


@dataclass(frozen=True, slots=True)
class ReadMail:
    """A mail, read."""

    headers: tuple[tuple[str, str], ...]
    text: str | None
    html: str | None
    attachments: tuple[tuple[str, str], ...]


class _Bounded(EmailPolicy):
    """Reads the beginning of each header: the standard library takes quadratic time for some of them."""

    def header_fetch_parse(self, name: str, value: str) -> Any:
        try:
            return super().header_fetch_parse(name, value[:_HEADER])
        except Exception:  # noqa: BLE001 - the parser of headers raises many things, also RecursionError
            return ""


_POLICY: Final = _Bounded()


def mail_bytes(queue: str, payload: Any) -> bytes | None:
    """The mail of a revealed payload as it was sent; None where there is none."""
    if queue != QUEUE or not isinstance(payload, dict):
        return None
    if isinstance(payload.get("content"), str):
        return str(payload["content"]).encode("utf-8", "replace")
    if isinstance(payload.get("raw"), str):
        try:
            return base64.b64decode(payload["raw"], validate=True)
        except ValueError:
            return None
    return None


def parse_mail(raw: bytes) -> ReadMail:
    """A rendered mail, read as far as it can be."""
    message = _message(_beginning(raw))
    return ReadMail(
        tuple(islice(_headers(message), _HEADERS)),
        _part(message, "plain"),
        _part(message, "html"),
        tuple(islice(_attachments(message), _ATTACHMENTS)),
    )


def _beginning(raw: bytes) -> bytes:
    """As many parts and lines as are read."""
    for mark, most in ((b"\n--", _PARTS), (b"\n", _LINES)):
        if raw.count(mark) > most:
            raw = mark.join(raw.split(mark, most)[:most])
    return raw


def _message(raw: bytes) -> EmailMessage:
    """Of a mail whose parts are nested too deep, the headers alone."""
    if raw.lower().count(b"multipart/") <= _NESTED:
        try:
            return cast("EmailMessage", BytesParser(EmailMessage, policy=_POLICY).parsebytes(raw))
        except Exception:  # noqa: BLE001, S110 - what the parser cannot read is shown as far as it can be
            pass
    return cast("EmailMessage", BytesHeaderParser(EmailMessage, policy=_POLICY).parsebytes(raw))


def _headers(message: EmailMessage) -> Iterator[tuple[str, str]]:
    for name, value in message.raw_items():
        yield _clean(name), _clean(str(_POLICY.header_fetch_parse(name, str(value))))


def _attachments(message: EmailMessage) -> Iterator[tuple[str, str]]:
    try:
        for one in message.walk():
            if one.get_content_disposition() == "attachment":
                yield _clean(one.get_filename() or ""), _clean(one.get_content_type())
    except Exception:  # noqa: BLE001 - those before the one that cannot be read are named
        return


def _part(message: EmailMessage, kind: str) -> str | None:
    try:
        part = message.get_body((kind,))
        data = None if part is None else part.get_payload(decode=True)
        charset = None if part is None else part.get_content_charset("utf-8")
    except Exception:  # noqa: BLE001 - a part that cannot be read is not shown
        return None
    return _whole_characters(_decoded(data, charset)[:_TEXT]) if isinstance(data, bytes) else None


def _decoded(data: bytes, charset: str | None) -> str:
    """Text in a charset that may be none of text, or not exist."""
    try:
        return data.decode(charset or "utf-8", "replace")
    except (LookupError, ValueError):
        return data.decode("utf-8", "replace")


def _clean(text: str) -> str:
    return _whole_characters(printable(text))


def _whole_characters(text: str) -> str:
    """Without halves of characters, which no page can be written with."""
    return text.encode("utf-8", "replace").decode()
