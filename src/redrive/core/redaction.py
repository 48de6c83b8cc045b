"""What must not reach a log, an error or a terminal: secrets, addresses, control sequences.

`redact` masks text, `mask` whole documents: by the names of their fields and by what values look like.
Patterns are linear. Redaction is for what people and machines read; what is stored stays whole. Known
weakness: a secret under a harmless name that looks like nothing in particular is not seen; of a URL with an @
in its path, the host is masked too, since it could be a part of a password.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any, NamedTuple

MASKED = "***"
_DEPTH = 64
_ABOVE_CARDS = 10**19

_URL = re.compile(r"://(\S+)")


class _Rule(NamedTuple):
    """What to mask. A match has one of `signs` in it, in any case: text without is not looked through."""

    signs: tuple[str, ...]
    pattern: re.Pattern[str]
    replacement: str = MASKED


_RULES = (
    _Rule(("private key-----",), re.compile(r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----.*+", re.S)),
    _Rule(("bearer", "basic"), re.compile(r"\b(bearer|basic)\s+[A-Za-z0-9._~+/=-]{8,500}", re.I), r"\1 ***"),
    _Rule(("eyj",), re.compile(r"\beyJ[A-Za-z0-9_.-]{20,4000}+")),
    _Rule(
        ("rdk", "k_live", "gh", "xox"),
        re.compile(r"\b(?:rdk|[srp]k_live|gh[opsu]|xox[abp])[_-][A-Za-z0-9_-]{16,200}+"),
    ),
    _Rule(("akia", "asia"), re.compile(r"\bA[KS]IA[0-9A-Z]{16}\b")),
    _Rule(
        ("passw", "secret", "token", "key", "authorization"),
        re.compile(
            r"\b(password|passwd|secret|token|api[_-]?key|authorization)"
            r"([\"']?\s?[=:]\s?[\"']?)[^\s,;&\"']{1,500}",
            re.I,
        ),
        r"\1\2***",
    ),
)
_SHORTEST = len("token=x")
_AT_DOMAIN = r"@(?=[A-Za-z0-9.\[-]|[^\s\x00-\x9f])"
# The first branch steps over what the URL's mask has left. The second begins only where a word does: tried at
# every character of a long word without an @, it would look through a part of it each time.
_ADDRESS = re.compile(r"(://\*\*\*@)|(?<![^\s<>@,;:\"'()])[^\s<>@,;:\"'()]++" + _AT_DOMAIN)
# "a b"@x.org, and as JSON writes it, \"a b\"@x.org. A quote after a letter ends something. No quote that one
# try steps over begins another, so no text is looked through twice.
_QUOTED = re.compile(
    r'(?<![\w\\])(?:"(?:[^"\\\r\n]|\\.)*+"|(\\++)"[^"\\\r\n]*+\1")' + _AT_DOMAIN,
)
_WORD = re.compile(r"\w")
_CARD = re.compile(r"(?<![0-9.-])[2-6](?:[ -]?[0-9]){12,18}(?![0-9])", re.ASCII)
_CONTROL = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|[\x00-\x08\x0b-\x1f\x7f-\x9f]")

_NOT_LETTERS = re.compile(r"[^a-z0-9]+", re.ASCII)
_SECRET_WORDS = (
    "password",
    "passwd",
    "passphrase",
    "secret",
    "token",
    "apikey",
    "accesskey",
    "privatekey",
    "authorization",
    "credential",
    "cookie",
    "cardnumber",
    "creditcard",
    "securitycode",
)
_SECRET_NAMES = frozenset(
    ("pwd", "pass", "pin", "otp", "auth", "card", "pan", "cvv", "cvc", "cvv2", "ssn", "iban", "jwt", "sid")
)


def redact(text: str) -> str:
    """The text with passwords, keys, card numbers and the local parts of addresses masked."""
    addressed = "@" in text
    if addressed:
        text = _URL.sub(_mask_url, text)
    if len(text) >= _SHORTEST:
        text = _mask_signed(text)
    if addressed:
        text = _mask_addresses(text)
    return _CARD.sub(_mask_card, text)


def _mask_signed(text: str) -> str:
    # Outside ASCII a pattern that ignores case takes letters for others that lower() does not.
    lowered = text.lower() if text.isascii() else None
    for signs, pattern, replacement in _RULES:
        if lowered is None or any(sign in lowered for sign in signs):
            text = pattern.sub(replacement, text)
    return text


def _mask_addresses(text: str) -> str:
    if '"@' in text:
        text = _QUOTED.sub(_mask_quoted, text)
    return _ADDRESS.sub(lambda found: found[1] or "***@", text)


def _mask_quoted(found: re.Match[str]) -> str:
    """What stands between two strings of JSON, as in `"done!", "@type"`, has no word in it and stays."""
    return "***@" if _WORD.search(found[0]) else found[0]


def printable(text: str) -> str:
    """The text without control and ANSI sequences, safe on a terminal."""
    return _CONTROL.sub("", text)


def is_secret(name: str, names: Iterable[str] = ()) -> bool:
    """Whether a field of this name is masked whole, whatever it holds; `names` are further such fields."""
    return _is_secret(name, _plain_names(names))


def mask(document: Any, names: Iterable[str] = ()) -> Any:
    """The document with secret fields masked whole and all text redacted; the given one stays as it is.

    `names` are further fields to mask, however they are written: `tax_id` is also `taxId`.
    """
    own = _plain_names(names)

    @cache  # a long document has many fields, and few names
    def shown(name: str) -> _Name:
        return _Name(redact(name), _is_secret(name, own))

    return _mask(document, shown, 0)


class _Name(NamedTuple):
    """How the name of a field is shown, and whether what stands in the field is not."""

    text: str
    secret: bool


def _mask(value: Any, shown: Callable[[str], _Name], depth: int) -> Any:
    if depth > _DEPTH:
        return MASKED
    match value:
        case str():
            return redact(value)
        case bool() | None:
            return value
        case int():
            return MASKED if 0 < value < _ABOVE_CARDS and is_card(str(value)) else value
        case Mapping():
            return _mask_fields(value, shown, depth)
        case list() | tuple():
            return [_mask(one, shown, depth + 1) for one in value]
    return value


def _mask_fields(fields: Mapping[str, Any], shown: Callable[[str], _Name], depth: int) -> dict[str, Any]:
    """A name may hold an address itself; names that look alike afterwards are told apart by a number."""
    masked: dict[str, Any] = {}
    for name, value in fields.items():
        plain, secret = shown(name)
        text = plain
        while text in masked:
            text = f"{plain} ({len(masked) + 1})"
        masked[text] = MASKED if secret and value is not None else _mask(value, shown, depth + 1)
    return masked


def is_card(digits: str) -> bool:
    """Whether digits could be the number of a payment card: its length, its issuer and its check digit."""
    if not (digits.isascii() and digits.isdigit() and 13 <= len(digits) <= 19 and digits[0] in "23456"):
        return False
    total = 0
    for place, digit in enumerate(map(int, reversed(digits))):
        doubled = digit * 2 if place % 2 else digit
        total += doubled - 9 if doubled > 9 else doubled
    return total % 10 == 0


def _mask_card(found: re.Match[str]) -> str:
    digits = found[0].replace(" ", "").replace("-", "")
    return f"***{digits[-4:]}" if is_card(digits) else found[0]


def _is_secret(name: str, own: frozenset[str]) -> bool:
    plain = _plain_name(name)
    return plain in own or plain in _SECRET_NAMES or any(word in plain for word in _SECRET_WORDS)


def _plain_names(names: Iterable[str]) -> frozenset[str]:
    return frozenset(map(_plain_name, names)) - {""}


def _plain_name(name: str) -> str:
    return _NOT_LETTERS.sub("", name.lower())


def _mask_url(found: re.Match[str]) -> str:
    """Up to the last @, since a password that was not encoded may hold @ and / itself."""
    _, at, where = found[1].rpartition("@")
    return f"://***@{where}" if at else found[0]
