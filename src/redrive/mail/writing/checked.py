"""What may be sent: from a Mail as submitted to a Checked that can be rendered without a doubt.

Collects every problem before it refuses, each with the field's name on the wire, and never repeats what
the mail says. A Checked is made here alone: its texts hold nothing that could break out of a header.
The size is that of the texts and of the attachments as base64, which is about what will be sent.
"""

from __future__ import annotations

import binascii
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from redrive.mail.writing.addresses import Address, InvalidAddress, each_once, parse
from redrive.mail.writing.header_text import CONTROL
from redrive.mail.writing.mail import Attachment, InvalidMail, Mail, Problem

MAX_RECIPIENTS = 1_000
MAX_BYTES = 25 * 1024 * 1024
MAX_SUBJECT = 998
MAX_HEADERS = 32_768
MAX_ATTACHMENTS = 100
MAX_TAGS = 50
MAX_REPLY_TO = 20
MAX_UNSUBSCRIBE = 10

HEADER_NAME = re.compile(r"[A-Za-z0-9-]{1,76}")
_TRANSPORT_HEADERS = frozenset({"bcc", "received", "return-path", "dkim-signature"})
_OWN_HEADERS = frozenset({"from", "to", "cc", "subject", "date", "message-id", "mime-version"})
_ADDRESS_HEADERS = frozenset({"sender", "reply-to", "errors-to", "disposition-notification-to"})
_TOKEN = "[A-Za-z0-9!#$&^_.+-]{1,127}"  # noqa: S105 - a MIME token, not a secret
_CONTENT_TYPE = re.compile(rf'{_TOKEN}/{_TOKEN}(?:; ?{_TOKEN}=(?:{_TOKEN}|"[ !#-\[\]-~]*"))*+')
_CONTENT_ID = re.compile(r"[!-;=?-~]{1,200}")
_UNSUBSCRIBE = re.compile(r"(?:https?://|mailto:)[!-;=?-~]{1,800}", re.IGNORECASE)
_OURS = "x-redrive-"
OURS = "is refused: headers that begin with X-Redrive- are Redrive's own"
_BROKEN = "has a control character or a line break: remove it"

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Checked:
    """A mail that can be sent. Texts are stripped, addresses parsed, base64 without line breaks."""

    sender: Address
    to: tuple[Address, ...]
    cc: tuple[Address, ...]
    bcc: tuple[Address, ...]
    reply_to: tuple[Address, ...]
    subject: str
    text: str | None
    html: str | None
    headers: tuple[tuple[str, str | Address], ...]
    attachments: tuple[Attachment, ...]
    list_unsubscribe: tuple[str, ...]
    tags: tuple[str, ...]

    @property
    def recipients(self) -> tuple[Address, ...]:
        """Everyone who gets it, each once, in the order given."""
        return each_once(self.to + self.cc + self.bcc)

    @property
    def authors(self) -> tuple[Address, ...]:
        """Everyone whom a reader may take it to be from."""
        named = [value for name, value in self.headers if name.lower() == "sender"]
        return (self.sender, *(value for value in named if isinstance(value, Address)))

    @property
    def smtputf8(self) -> bool:
        """Its headers need SMTPUTF8; a blind copy's own address may, without this."""
        named = [value for _, value in self.headers if isinstance(value, Address)]
        return any(one.smtputf8 for one in (self.sender, *self.to, *self.cc, *self.reply_to, *named))


class _Checking:
    """The problems of one mail, as they are found."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []

    def add(self, field: str, problem: str) -> None:
        self.problems.append(Problem(field, problem))

    def addresses(self, field: str, given: str | Sequence[str], most: int) -> tuple[Address, ...]:
        if not given and not isinstance(given, str):
            return ()
        listed = _listed(given)
        if len(listed) > most:
            self.add(
                field, f"has {len(listed):,} addresses, and at most {most:,} may be given: split the mail"
            )
            return ()
        names = [field] if isinstance(given, str) else [f"{field}[{place}]" for place in range(len(listed))]
        return _kept(self.address(name, text) for name, text in zip(names, listed, strict=True))

    def address(self, field: str, text: str) -> Address | None:
        try:
            return parse(text)
        except InvalidAddress as error:
            self.add(field, error.problem)
            return None

    def line(self, field: str, text: str, most: int, least: int = 0) -> str:
        text = text.strip(" ")
        if CONTROL.search(text):
            self.add(field, _BROKEN)
        elif not least <= len(text) <= most:
            self.add(field, f"has {len(text):,} characters: {least:,} to {most:,} are allowed")
        return text

    def body(self, field: str, text: str | None) -> None:
        if text is not None and "\0" in text:
            self.add(field, "has a NUL character: remove it")
        if text is not None and not _is_unicode(text):
            self.add(field, "has half of a surrogate pair: send whole characters")


def check(mail: Mail) -> Checked:
    """The mail ready to be rendered, or InvalidMail with everything that is wrong."""
    found = _Checking()
    _check_size(found, mail)
    sender = found.address("from", mail.from_)
    to, cc, bcc = (found.addresses(name, getattr(mail, name), MAX_RECIPIENTS) for name in ("to", "cc", "bcc"))
    _check_recipients(found, mail)
    reply_to = found.addresses("replyTo", mail.reply_to, MAX_REPLY_TO)
    subject = found.line("subject", mail.subject, MAX_SUBJECT)
    if mail.text is None and mail.html is None:
        found.add("text", "is missing, and so is html: give at least one")
    found.body("text", mail.text)
    found.body("html", mail.html)
    unsubscribe = _check_unsubscribe(found, _listed(mail.list_unsubscribe))
    headers = _check_headers(found, mail)
    attachments = _check_attachments(found, mail.attachments)
    tags = _check_tags(found, mail.tags)
    if found.problems or sender is None:
        raise InvalidMail(found.problems)
    return Checked(
        sender=sender,
        to=to,
        cc=cc,
        bcc=bcc,
        reply_to=reply_to,
        subject=subject,
        text=mail.text,
        html=mail.html,
        headers=headers,
        attachments=attachments,
        list_unsubscribe=unsubscribe,
        tags=tags,
    )


def is_ours(name: str) -> bool:
    """Whether a header is one that only Redrive sets."""
    return name.lower().startswith(_OURS)


def _listed(given: str | Sequence[str]) -> Sequence[str]:
    return [given] if isinstance(given, str) else given


def _kept(values: Iterable[T | None]) -> tuple[T, ...]:
    return tuple([value for value in values if value is not None])


def _is_unicode(text: str) -> bool:
    try:
        return text.isascii() or bool(text.encode())
    except UnicodeEncodeError:
        return False


def _bytes(text: str | None) -> int:
    if text is None or text.isascii():
        return len(text or "")
    return len(text.encode("utf-8", "surrogatepass"))


def _check_size(found: _Checking, mail: Mail) -> None:
    size = _bytes(mail.text) + _bytes(mail.html) + sum(len(one.content) for one in mail.attachments)
    if size > MAX_BYTES:
        found.add("", f"the mail has {size:,} bytes and may have {MAX_BYTES:,}: send a link to what is large")
        raise InvalidMail(found.problems)


def _check_recipients(found: _Checking, mail: Mail) -> None:
    lists = [_listed(given) for given in (mail.to, mail.cc, mail.bcc)]
    count = sum(map(len, lists))
    if not count:
        found.add("to", "is missing, and so are cc and bcc: give at least one recipient")
    elif count > MAX_RECIPIENTS and max(map(len, lists)) <= MAX_RECIPIENTS:
        found.add(
            "to", f"has {count:,} recipients with cc and bcc, and at most {MAX_RECIPIENTS:,} may be given"
        )


def _check_unsubscribe(found: _Checking, given: Sequence[str]) -> tuple[str, ...]:
    if len(given) > MAX_UNSUBSCRIBE:
        found.add("listUnsubscribe", f"has {len(given):,} addresses: at most {MAX_UNSUBSCRIBE} are allowed")
        return ()
    for place, address in enumerate(given):
        if not _UNSUBSCRIBE.fullmatch(address):
            found.add(
                f"listUnsubscribe[{place}]",
                "is not an https: or mailto: address of at most 800 ASCII letters",
            )
    return tuple(given)


def _check_headers(found: _Checking, mail: Mail) -> tuple[tuple[str, str | Address], ...]:
    if sum(len(name) + len(value) for name, value in mail.headers.items()) > MAX_HEADERS:
        found.add("headers", f"are longer than {MAX_HEADERS:,} characters together: shorten them")
        return ()
    taken = {"reply-to"} if mail.reply_to else set()
    if mail.list_unsubscribe:
        taken |= {"list-unsubscribe", "list-unsubscribe-post"}
    checked = []
    for place, (name, value) in enumerate(mail.headers.items()):
        if not HEADER_NAME.fullmatch(name):
            found.add(f"headers[{place}]", "has a name that is not 1-76 of A-Z a-z 0-9 -")
            continue
        lower = name.lower()
        if lower in taken:
            found.add(
                f"headers.{name}", "is given twice: give it once, as a header or as the mail's own field"
            )
        taken.add(lower)
        checked.append((name, _check_header(found, name, value)))
    return tuple(checked)


def _check_header(found: _Checking, name: str, value: str) -> str | Address:
    field, lower = f"headers.{name}", name.lower()
    if lower in _OWN_HEADERS or lower.startswith("content-"):
        found.add(field, "is made from the mail's own fields: remove it here")
    elif lower in _TRANSPORT_HEADERS or lower.startswith("resent-"):
        found.add(field, "is refused: mail servers set it, and blind copies are given as bcc")
    elif is_ours(name):
        found.add(field, OURS)
    elif lower in _ADDRESS_HEADERS:
        return found.address(field, value) or ""
    return found.line(field, value, MAX_HEADERS)


def _check_attachments(found: _Checking, given: Sequence[Attachment]) -> tuple[Attachment, ...]:
    if len(given) > MAX_ATTACHMENTS:
        found.add("attachments", f"are {len(given):,}, and at most {MAX_ATTACHMENTS} may be given")
        return ()
    return tuple([_check_attachment(found, f"attachments[{at}]", one) for at, one in enumerate(given)])


def _check_attachment(found: _Checking, field: str, given: Attachment) -> Attachment:
    filename = found.line(f"{field}.filename", given.filename, 255, 1)
    kind = given.content_type.lower().partition(";")[0]
    if len(given.content_type) > 255 or not _CONTENT_TYPE.fullmatch(given.content_type):
        found.add(f"{field}.contentType", "is not type/subtype, with or without parameters, in ASCII")
    elif kind.startswith("multipart/") or (kind.startswith("message/") and kind != "message/rfc822"):
        found.add(f"{field}.contentType", "cannot be attached as a file: use application/octet-stream")
    content_id = given.content_id
    if content_id is not None:
        content_id = content_id.removeprefix("<").removesuffix(">")
        if not _CONTENT_ID.fullmatch(content_id):
            found.add(f"{field}.contentId", "is not 1-200 visible ASCII letters without < and >")
    content = given.content.replace("\r", "").replace("\n", "")
    try:
        binascii.a2b_base64(content, strict_mode=True)
    except ValueError:
        found.add(f"{field}.content", "is not base64: encode the file's bytes with the standard alphabet")
    return Attachment(
        filename=filename, content=content, content_type=given.content_type, content_id=content_id
    )


def _check_tags(found: _Checking, given: Sequence[str]) -> tuple[str, ...]:
    if len(given) > MAX_TAGS:
        found.add("tags", f"are {len(given):,}, and at most {MAX_TAGS} may be given")
        return ()
    return tuple([found.line(f"tags[{place}]", tag, 128, 1) for place, tag in enumerate(given)])
