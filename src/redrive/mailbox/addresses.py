"""The arguments of MAIL and RCPT, read strictly: no blank after the colon, no address without brackets.

An argument that cannot be read, or that needs what was not agreed on, comes back as the reply that says so.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from redrive.mailbox.replies import (
    BAD_ARGUMENT,
    NEEDS_SMTPUTF8,
    SIZE_EXCEEDED,
    UNKNOWN_PARAMETER,
    SimulatedReply,
)

_ATOM = r"[^\"<>@\x00-\x20\x7f]+"
_QUOTED = r"\"(?:[^\"\\\x00-\x1f\x7f]|\\[ -~])*\""
_PATH = rf"<(?:@[^<>:\x00-\x20\x7f]+:)?((?:{_ATOM}|{_QUOTED})@{_ATOM}|postmaster|)>"
_PARAMETERS = r"((?: [^ \x00-\x1f\x7f]+)*)"
_SENDER = re.compile(rf"FROM:{_PATH}{_PARAMETERS}", re.IGNORECASE)
_RECIPIENT = re.compile(rf"TO:{_PATH}{_PARAMETERS}", re.IGNORECASE)
_BODIES = frozenset({"7BIT", "8BITMIME"})


@dataclass(frozen=True, slots=True)
class MailFrom:
    """Who sends, empty for a bounce, and whether addresses beyond ASCII were agreed on."""

    address: str
    smtputf8: bool = False


def parse_sender(argument: str, size_bytes: int) -> MailFrom | SimulatedReply:
    """What follows MAIL; a declared size above `size_bytes` is refused."""
    match = _SENDER.fullmatch(argument)
    if match is None:
        return BAD_ARGUMENT
    smtputf8 = False
    for parameter in match[2].split():
        name, _, value = parameter.upper().partition("=")
        if name == "SMTPUTF8" and not value:
            smtputf8 = True
        else:
            refused = _problem(name, value, size_bytes)
            if refused is not None:
                return refused
    if not smtputf8 and not match[1].isascii():
        return NEEDS_SMTPUTF8
    return MailFrom(match[1], smtputf8)


def parse_recipient(argument: str, *, smtputf8: bool) -> str | SimulatedReply:
    """What follows RCPT."""
    match = _RECIPIENT.fullmatch(argument)
    if match is None or not match[1]:
        return BAD_ARGUMENT
    if match[2]:
        return UNKNOWN_PARAMETER
    if not smtputf8 and not match[1].isascii():
        return NEEDS_SMTPUTF8
    return match[1]


def _problem(name: str, value: str, size_bytes: int) -> SimulatedReply | None:
    """What is wrong with a parameter of MAIL. `AUTH=` is taken and not used, as RFC 4954 allows."""
    if name == "SIZE":
        if not (value.isascii() and value.isdigit() and len(value) <= 20):
            return BAD_ARGUMENT
        return SIZE_EXCEEDED if int(value) > size_bytes else None
    if name == "BODY":
        return None if value in _BODIES else BAD_ARGUMENT
    return None if name == "AUTH" and value else UNKNOWN_PARAMETER
