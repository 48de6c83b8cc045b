"""Values as they are written: what a bare one means, and how one is written so that it is read the same.

In quotes a value is exactly itself. Bare, it may be a pattern: all that begin so (`email:*`), or a code with
any digits (`5xx`). What other languages would write there is refused with the spelling of this one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import product

from redrive.office.filters.names import NameField, field_name

OPERATORS = frozenset(("and", "or", "not"))
PLUS = "+"
FOREIGN = frozenset(("XOR", "EXCEPT", "WITHOUT", "UNLESS", "WHERE", "LIKE", "IN", "IS", "BETWEEN"))
FINGERPRINT_LENGTH = 16
ID_LENGTH = 36
SHORTEST_PREFIX = 4
_PLAIN = re.compile(r"[\w.@/+:][\w.@/+:-]*")
_DIGITS = re.compile(r"(?=.*x)(?:[1-9][0-9x]{2}|[245](?:\.(?:[0-9]{1,3}|x)){2})", re.ASCII | re.I)
_HEX = re.compile(r"[0-9a-f-]+", re.ASCII | re.I)
_DIGIT = "[0-9]"


class Misspelled(ValueError):
    """A bare value that cannot be meant as it is written."""

    def __init__(self, problem: str, advice: str) -> None:
        self.problem, self.advice = problem, advice
        super().__init__(f"{problem}: {advice}")


@dataclass(frozen=True, slots=True)
class Pattern:
    """Values that begin so (`acme*`), or codes with any digit at each x (`5xx`, `5.1.x`)."""

    text: str

    def __str__(self) -> str:
        return self.text

    @property
    def prefix(self) -> str | None:
        return self.text[:-1] if self.text.endswith("*") else None

    def globs(self) -> list[str]:
        """As SQLite's GLOB reads them. In a code with dots, x is a number of up to three digits."""
        if "." not in self.text:
            return [self.text.replace("x", _DIGIT)]
        parts = [
            [_DIGIT * size for size in (1, 2, 3)] if one == "x" else [one] for one in self.text.split(".")
        ]
        return [".".join(chosen) for chosen in product(*parts)]


def bare_name(field: NameField, text: str) -> str | Pattern:
    """What a value without quotes means in a field of names, or Misspelled."""
    check_bare(text)
    if "?" in text or text.startswith("%") or text.endswith("%"):
        raise Misspelled(f"{text!r} has a wildcard", f"write {field}:{_start(text)}* for all that begin so")
    if ".." in text:
        advice = "write code:5xx, or the values" if field is NameField.CODE else "write the values"
        raise Misspelled(f"{field} has no ranges", f"{advice} with commas")
    if "*" in text:
        return _prefix(field, text)
    if field is NameField.CODE and _DIGITS.fullmatch(text):
        return Pattern(text.lower())
    if field is NameField.FINGERPRINT and _is_part(text, FINGERPRINT_LENGTH):
        return Pattern(f"{text.lower()}*")
    if field is NameField.ID and is_beginning_of_id(text):
        advice = f"write all of it, or {field}:{text}* for every id that begins so"
        raise Misspelled(f"an id has {ID_LENGTH} characters", advice)
    return text


def is_beginning_of_id(text: str) -> bool:
    """Whether it looks like an id that is not whole."""
    return _is_part(text, ID_LENGTH)


def check_bare(text: str) -> None:
    """Refuse what would be an operator anywhere else."""
    if text.lower() in OPERATORS:
        raise Misspelled(f"{text!r} is an operator", f'write "{text}" in quotes if the value is meant')
    if text.startswith("-"):
        raise Misspelled("a minus before a value", "put it before the field: -field:value")
    if "&&" in text or "|" in text or ";" in text:
        raise Misspelled(f"{text!r} has an operator in it", "separate values by commas, or quote the value")


def is_text_word(text: str) -> bool:
    """Whether a bare word is text: no operator of this or another language, and no field's name."""
    return text.lower() not in OPERATORS and text not in FOREIGN and text != PLUS and field_name(text) is None


def plain_name(field: NameField, text: str) -> str:
    """A value of a field of names as it is written."""
    try:
        itself = bare_name(field, text) == text
    except Misspelled:
        itself = False
    return plain(text) if itself else quote(text)


def plain(text: str) -> str:
    """A value as it is written: in quotes only where it needs them."""
    bare = _PLAIN.fullmatch(text) and text.lower() not in OPERATORS
    return text if bare else quote(text)


def quote(text: str) -> str:
    """In quotes."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _prefix(field: NameField, text: str) -> Pattern:
    if text == "*":
        raise Misspelled("a * alone fits everything", f"leave it out, or write {field}:abc* for a beginning")
    if text.count("*") > 1 or not text.endswith("*"):
        advice = f"write {field}:{_start(text)}* for all that begin so"
        raise Misspelled(f"{text!r} has a * that is not at its end", advice)
    return Pattern(text)


def _start(text: str) -> str:
    return re.split(r"[*?%]", text.lstrip("*?%"))[0] or "abc"


def _is_part(text: str, length: int) -> bool:
    return SHORTEST_PREFIX <= len(text) < length and _HEX.fullmatch(text) is not None
