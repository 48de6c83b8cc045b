"""Mail addresses: read `Name <local@domain>` strictly, write it for the envelope and for a header.

Refuses more than RFC 5322 does: no comments, no routes, no groups, no address literals, one address a
text, and no local part that needs a space, < or > (an SMTP command line could not carry it safely). An
international domain becomes its A-label, or stays as it is where that would name another domain.
Every pattern is linear and every text is bounded. Errors never repeat the text.
Known weakness: a domain with a zero-width joiner has to be written as its A-label.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property, lru_cache

from redrive.core.errors import InvalidMessage
from redrive.mail.writing.header_text import CONTROL, phrase, quoted_string

MAX_TEXT = 1_000
MAX_NAME = 256
MAX_LOCAL = 64
MAX_DOMAIN = 255
MAX_ADDRESS = 254
_REMEMBERED = 1_024

_ATOM = "[A-Za-z0-9!#$%&'*+/=?^_`{|}~\\x80-\\U0010ffff-]"
_DOT_ATOM = re.compile(rf"{_ATOM}++(?:\.{_ATOM}++)*+")
_LABEL = "[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
_DOMAIN = re.compile(rf"{_LABEL}(?:\.{_LABEL})*", re.ASCII)
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*+)"')
_ESCAPED = re.compile(r"\\(.)")
_NAME_SPECIALS = re.compile(r'[()<>\[\]:;@\\,"]')
_LOCAL_FORBIDDEN = re.compile("[\\s<>\\x00-\\x20\\x7f-\\xa0]")


class InvalidAddress(InvalidMessage):
    """A text that is not one mail address; `problem` says why."""


@dataclass(frozen=True)
class Address:
    """One checked address, made by `parse` alone. `local` is without quotes, `domain` in lower case."""

    name: str
    local: str
    domain: str

    @cached_property
    def envelope(self) -> str:
        """`local@domain` as MAIL and RCPT carry it."""
        local = self.local if _DOT_ATOM.fullmatch(self.local) else quoted_string(self.local)
        return f"{local}@{self.domain}"

    @cached_property
    def header(self) -> str:
        """As From, To and Cc carry it; ASCII unless `smtputf8`."""
        return f"{phrase(self.name)} <{self.envelope}>" if self.name else self.envelope

    @cached_property
    def smtputf8(self) -> bool:
        """It can only travel through servers that offer SMTPUTF8."""
        return not (self.local.isascii() and self.domain.isascii())


@lru_cache(_REMEMBERED)
def parse(text: str) -> Address:
    """The address, or InvalidAddress. Recipients are asked for twice a mail, a sender with every mail."""
    if len(text) > MAX_TEXT:
        raise InvalidAddress(f"is longer than {MAX_TEXT} characters: give one address a text")
    if CONTROL.search(text):
        raise InvalidAddress("has a control character or a line break: remove it")
    name, address = _parts(text.strip(" "))
    local, _, domain = address.rpartition("@")
    if not local or not domain:
        raise InvalidAddress("is not an address, alone or as Name <address>")
    parsed = Address(_name(name), _local(local), _domain(domain))
    if len(parsed.envelope.encode()) > MAX_ADDRESS:
        raise InvalidAddress(f"is an address of more than {MAX_ADDRESS} bytes: mail servers refuse it")
    return parsed


def each_once(addresses: Iterable[Address]) -> tuple[Address, ...]:
    """The addresses in order, without those whose envelope form came before."""
    unique: dict[str, Address] = {}
    for address in addresses:
        unique.setdefault(address.envelope, address)
    return tuple(unique.values())


def _parts(text: str) -> tuple[str, str]:
    if not text.endswith(">"):
        return "", text
    name, bracket, address = text[:-1].rpartition("<")
    if not bracket:
        raise InvalidAddress("has > without <: write Name <address>")
    return name.strip(" "), address


def _name(text: str) -> str:
    quoted = _QUOTED.fullmatch(text)
    if quoted is not None:
        text = _ESCAPED.sub(r"\1", quoted[1]).strip(" ")
    elif _NAME_SPECIALS.search(text):
        raise InvalidAddress(
            'has one of ()<>[]:;@\\," outside its address: put the name in double quotes, '
            "and give several addresses as a list"
        )
    if len(text) > MAX_NAME:
        raise InvalidAddress(f"has a name of more than {MAX_NAME} characters: shorten it")
    return text


def _local(text: str) -> str:
    if len(text.encode()) > MAX_LOCAL:
        raise InvalidAddress(f"has more than {MAX_LOCAL} bytes before the @: mail servers refuse it")
    quoted = _QUOTED.fullmatch(text)
    if quoted is None and not _DOT_ATOM.fullmatch(text):
        raise InvalidAddress("has a part before the @ that is not dot-separated words or a quoted string")
    local = text if quoted is None else _ESCAPED.sub(r"\1", quoted[1])
    if not local or _LOCAL_FORBIDDEN.search(local) or not _is_visible(local):
        raise InvalidAddress("has an empty part, a space, < or > or an invisible character before the @")
    return local


def _is_visible(text: str) -> bool:
    return text.isascii() or not any(unicodedata.category(one)[0] in "CZ" for one in text)


def _domain(text: str) -> str:
    if len(text.encode()) > MAX_DOMAIN:
        raise InvalidAddress(f"has a domain of more than {MAX_DOMAIN} bytes")
    domain = text.lower() if text.isascii() else _international(text)
    if domain.isascii() and not _DOMAIN.fullmatch(domain):
        raise InvalidAddress("has a domain that is not letters, digits and hyphens between dots")
    if domain.rpartition(".")[2].isdigit():
        raise InvalidAddress("has a number as its domain's last part: an IP address is not a mail domain")
    return domain


def _international(text: str) -> str:
    """The A-label where it means the same domain: the standard codec would send straße.de to strasse.de."""
    domain = unicodedata.normalize("NFC", text).lower()
    if unicodedata.normalize("NFKC", domain) != domain or not all(map(_is_label, domain.split("."))):
        raise InvalidAddress("has a domain with characters that no domain has: write its A-label (xn--…)")
    try:
        encoded = domain.encode("idna")
        return encoded.decode("ascii") if encoded.decode("idna") == domain else domain
    except UnicodeError:
        return domain


def _is_label(label: str) -> bool:
    letters = all(one.isalnum() or one == "-" or unicodedata.category(one)[0] == "M" for one in label)
    return bool(label) and letters and not label.startswith("-") and not label.endswith("-")
