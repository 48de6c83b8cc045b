"""A message of the standard `email` package, accepted as it is: its envelope and its bytes.

The caller's message is not changed. Bcc becomes recipients and is left out of the content, Resent- headers
say nothing about the envelope, and Date and Message-ID are added when they are missing. Refused: headers
that hold line breaks or other control characters, also encoded ones, and messages with defects.
Known weaknesses: an international domain in a header makes the content need SMTPUTF8, even where its
A-label would do; and header parsing is the standard package's, so this is for the caller's own messages.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from datetime import datetime
from email.errors import MessageError, NonASCIILocalPartDefect
from email.message import Message
from email.policy import SMTP, SMTPUTF8, EmailPolicy
from email.utils import format_datetime
from typing import Any, TypeAlias

from redrive.mail.stored import Stored, store
from redrive.mail.writing.addresses import Address, InvalidAddress, each_once
from redrive.mail.writing.addresses import parse as parse_address
from redrive.mail.writing.checked import HEADER_NAME, MAX_BYTES, MAX_RECIPIENTS, OURS, is_ours
from redrive.mail.writing.header_text import CONTROL
from redrive.mail.writing.mail import InvalidMail, Problem, make_message_id
from redrive.mail.writing.render import LONGEST_LINE

AnyMessage: TypeAlias = "Message[Any, Any]"

_FOLD = re.compile(r"\r?\n(?=[ \t])")
_AUTHOR_HEADERS = ("From", "Sender", "Resent-From", "Resent-Sender")
_RECIPIENT_HEADERS = ("To", "Cc", "Bcc")
_NAME = re.compile(rb"^([^\s:]+):", re.MULTILINE)
_STANDARD_ERRORS = (MessageError, ValueError, LookupError, TypeError, AttributeError)


def from_email_message(message: AnyMessage, *, mail_id: str, date: datetime) -> Stored:
    """The message to be stored, or InvalidMail. `mail_id` and `date` (aware) serve where it has none."""
    for part in _own_parts(message):
        _check_part(part)
    author = _addresses(message, "From")
    if not author:
        raise _refused("From", "is missing: say who the mail is from")
    sender = (_addresses(message, "Sender") or author)[0]
    recipients = [one for name in _RECIPIENT_HEADERS for one in _addresses(message, name)]
    if not 1 <= len(recipients) <= MAX_RECIPIENTS:
        raise _refused(
            "To", f"has {len(recipients):,} recipients with Cc and Bcc: give 1 to {MAX_RECIPIENTS:,}"
        )
    outgoing, message_id = _completed(message, make_message_id(mail_id, author[0].domain), date)
    smtputf8 = _needs_smtputf8(outgoing)
    subject = str(message["Subject"] or "")
    content = _written(outgoing, smtputf8)
    return store(content, sender, each_once(recipients), message_id, subject, smtputf8=smtputf8)


def authors(message: AnyMessage) -> list[Address]:
    """Everyone whom a reader may take the message to be from."""
    return [one for name in _AUTHOR_HEADERS for one in _addresses(message, name)]


def _refused(field: str, problem: str) -> InvalidMail:
    return InvalidMail([Problem(field, problem)])


def _own_parts(message: AnyMessage) -> Iterator[AnyMessage]:
    """The message and its parts, but not what is inside attached mails."""
    yield message
    if message.get_content_maintype() == "multipart" and message.is_multipart():
        for part in message.get_payload():
            if isinstance(part, Message):
                yield from _own_parts(part)


def _check_part(part: AnyMessage) -> None:
    if part.defects:
        raise _refused("", f"the message has a defect ({type(part.defects[0]).__name__}): build it again")
    for place, (name, value) in enumerate(part.raw_items()):
        if not HEADER_NAME.fullmatch(name):
            raise _refused(f"header {place}", "has a name that is not 1-76 of A-Z a-z 0-9 -")
        if is_ours(name):
            raise _refused(name, OURS)
        if _is_broken(name, str(value)):
            raise _refused(name, "has a control character or a line break: remove it")


def _is_broken(name: str, value: str) -> bool:
    """Also when it is hidden in an encoded word: writing the header anew would bring it out."""
    value = _FOLD.sub("", value)
    if "=?" in value:
        value += str(_read(name, value))
    return CONTROL.search(value.replace("\t", " ")) is not None


def _read(name: str, value: object) -> Any:
    """The header as the standard package reads it; some texts make its parser fail in many ways."""
    try:
        return SMTP.header_factory(name, _FOLD.sub("", str(value)))
    except _STANDARD_ERRORS as error:
        raise _refused(
            name, f"cannot be read ({type(error).__name__}): write it in the usual form"
        ) from error


def _standard_addresses(message: AnyMessage, name: str) -> Iterator[str]:
    for value in message.get_all(name, []):
        header = _read(name, value)
        defects = [one for one in header.defects if not isinstance(one, NonASCIILocalPartDefect)]
        if defects:
            raise _refused(name, f"cannot be read as addresses ({type(defects[0]).__name__})")
        for address in header.addresses:
            yield address.addr_spec


def _addresses(message: AnyMessage, name: str) -> list[Address]:
    """Every address of the headers of that name, each checked as strictly as a submitted one."""
    try:
        return [parse_address(address) for address in _standard_addresses(message, name)]
    except InvalidAddress as error:
        raise _refused(name, error.problem) from None


def _completed(message: AnyMessage, made_id: str, date: datetime) -> tuple[AnyMessage, str]:
    """A copy with its own list of headers: `del` makes the new list, the parts are shared."""
    outgoing = copy.copy(message)
    for name in ("Bcc", "Resent-Bcc"):
        del outgoing[name]
    if not isinstance(outgoing.policy, EmailPolicy):
        _modernise(outgoing)
    if not outgoing["Date"]:
        del outgoing["Date"]
        outgoing["Date"] = format_datetime(date)
    if not outgoing["Message-ID"]:
        del outgoing["Message-ID"]
        outgoing["Message-ID"] = made_id
    return outgoing, str(outgoing["Message-ID"]).strip()


def _modernise(message: AnyMessage) -> None:
    """Older messages hold headers as plain text, which would be written without encoded words."""
    items = list(message.raw_items())
    for name in list(message):
        del message[name]
    for name, value in items:
        message[name] = _read(name, value)


def _needs_smtputf8(message: AnyMessage) -> bool:
    names = ("From", "Sender", "Reply-To", "To", "Cc")
    return not all(address.isascii() for name in names for address in _standard_addresses(message, name))


def _written(message: AnyMessage, smtputf8: bool) -> bytes:
    try:
        content: bytes = message.as_bytes(policy=SMTPUTF8 if smtputf8 else SMTP)
    except _STANDARD_ERRORS as error:
        raise _refused(
            "", f"the message cannot be written ({type(error).__name__}): build it again"
        ) from error
    head = content.partition(b"\r\n\r\n")[0]
    if [name.decode("ascii", "replace") for name in _NAME.findall(head)] != list(message):
        raise _refused("", "the message has headers that change when they are written: build it again")
    if len(content) > MAX_BYTES:
        raise _refused("", f"the mail has {len(content):,} bytes and may have {MAX_BYTES:,}")
    if b"\0" in content or max(map(len, content.split(b"\r\n"))) > LONGEST_LINE:
        raise _refused(
            "", f"the message has a NUL or a line over {LONGEST_LINE} bytes: encode that part in base64"
        )
    return content
