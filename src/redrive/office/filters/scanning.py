"""From text to raw terms: where a field's name ends, what is quoted, which sign stands before a value.

Linear, without backtracking: one step forward a character (S11). It knows no field; that is `parsing`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from redrive.core.errors import RedriveError

LENGTH = 2_000
_UNSTORABLE = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]")
_SIGNS = (">=", "<=", ">", "<")


class FilterError(RedriveError):
    """A filter that cannot be read: where (counted from 0), what is wrong, what to do."""

    def __init__(self, position: int, problem: str, advice: str) -> None:
        self.position, self.problem, self.advice = position, problem, advice
        super().__init__(f"filter, character {position + 1}: {problem}: {advice}")


@dataclass(frozen=True, slots=True)
class RawValue:
    """A value as written, with its place."""

    text: str
    position: int
    quoted: bool = False


@dataclass(frozen=True, slots=True)
class RawTerm:
    """A term as written. Without a name it is text to search for, and has one value."""

    position: int
    name: str | None
    sign: str
    values: tuple[RawValue, ...]
    negated: bool = False


def scan(text: str) -> list[RawTerm]:
    """The terms of a filter's text, in order."""
    if len(text) > LENGTH:
        raise FilterError(LENGTH, f"longer than {LENGTH} characters", "make it shorter")
    if found := _UNSTORABLE.search(text):
        raise FilterError(found.start(), "a control character", "leave it out")
    return list(_Scanner(text).terms())


class _Scanner:
    """A place in a text, and what is read from there on."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def terms(self) -> list[RawTerm]:
        found = []
        while self._skip_space():
            found.append(self._term())
        return found

    def _skip_space(self) -> bool:
        while self._at < len(self._text) and self._text[self._at].isspace():
            self._at += 1
        return self._at < len(self._text)

    def _term(self) -> RawTerm:
        begin = self._at
        negated = self._take("-")
        if self._peek() == '"':
            value = self._quoted()
            self._end_of_term()
            return RawTerm(begin, None, "", (value,), negated)
        word = self._until(':"')
        if word.text and self._take(":"):
            return RawTerm(begin, word.text, self._sign(), self._values(), negated)
        if not word.text or self._peek() in (":", '"'):
            problem = "a lone -" if self._at >= len(self._text) or self._peek().isspace() else "a stray sign"
            raise FilterError(self._at, problem, 'write field:value, or put text to search for in "quotes"')
        return RawTerm(begin, None, "", (word,), negated)

    def _values(self) -> tuple[RawValue, ...]:
        values = [self._value()]
        while self._take(","):
            values.append(self._value())
        self._end_of_term()
        return tuple(values)

    def _value(self) -> RawValue:
        if self._peek() == '"':
            return self._quoted()
        value = self._until(',"')
        if not value.text:
            raise FilterError(value.position, "a value is missing", 'write one, or "" for none')
        return value

    def _sign(self) -> str:
        for sign in _SIGNS:
            if self._take(sign):
                return sign
        return ""

    def _quoted(self) -> RawValue:
        begin = self._at
        self._at += 1
        text = []
        while (character := self._peek()) != '"':
            if not character:
                raise FilterError(begin, "a quote that is never closed", 'end it with "')
            if character == "\\" and self._text[self._at + 1 : self._at + 2] in ("\\", '"'):
                self._at += 1
                character = self._peek()
            text.append(character)
            self._at += 1
        self._at += 1
        return RawValue("".join(text), begin, quoted=True)

    def _end_of_term(self) -> None:
        if (character := self._peek()) and not character.isspace():
            raise FilterError(
                self._at, f"{character!r} after the end of a value", "put a space between terms"
            )

    def _until(self, ends: str) -> RawValue:
        begin = self._at
        while (character := self._peek()) and not character.isspace() and character not in ends:
            self._at += 1
        return RawValue(self._text[begin : self._at], begin)

    def _take(self, sign: str) -> bool:
        if self._text.startswith(sign, self._at):
            self._at += len(sign)
            return True
        return False

    def _peek(self) -> str:
        return self._text[self._at : self._at + 1]
