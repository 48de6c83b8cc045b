"""From text to tokens: terms as they are written, operators and parentheses, each with its place.

Reads from left to right, once; it looks ahead only to name the right spelling of what it refuses. It knows no
field; that is `parser`. What other languages write is `mistakes`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

from redrive.office.filters import mistakes
from redrive.office.filters.mistakes import FilterError

LENGTH = 2_000
_UNSTORABLE = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]")
_SIGNS = (">=", "<=", ">", "<")
_WORD_ENDS = ':"()=<>!~&|,' + mistakes.CURLY + mistakes.ODD_SIGNS
_VALUE_ENDS = ',"()' + mistakes.CURLY


class Mark(Enum):
    """What joins and groups terms."""

    AND = "AND"
    OR = "OR"
    NOT = "NOT"
    OPEN = "("
    CLOSE = ")"


@dataclass(frozen=True, slots=True)
class RawMark:
    """A mark and its place."""

    mark: Mark
    position: int


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


Token = RawMark | RawTerm


def scan(text: str) -> list[Token]:
    """The tokens of a filter's text, in order."""
    if len(text) > LENGTH:
        raise FilterError(LENGTH, f"longer than {LENGTH} characters", "make it shorter")
    if found := _UNSTORABLE.search(text):
        raise FilterError(found.start(), "a control character", "leave it out")
    return _Scanner(text).tokens()


class _Scanner:
    """A place in a text, and what is read from there on."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def tokens(self) -> list[Token]:
        found: list[Token] = []
        while self._skip_space():
            found.append(self._token())
        return found

    def _skip_space(self) -> bool:
        while self._peek().isspace():
            self._at += 1
        return self._at < len(self._text)

    def _token(self) -> Token:
        begin = self._at
        if self._take("("):
            return RawMark(Mark.OPEN, begin)
        if self._take(")"):
            return RawMark(Mark.CLOSE, begin)
        if self._take("-"):
            mistakes.check_minus(self._text, self._at)
            return RawMark(Mark.NOT, begin)
        if self._peek() == '"':
            return self._text_term(begin, self._quoted())
        mistakes.check_start(self._text, begin)
        word = self._until(_WORD_ENDS)
        if word.text and self._take(":"):
            return self._field(begin, word.text)
        if word.text in ("AND", "OR", "NOT"):
            return RawMark(Mark(word.text), begin)
        mistakes.check_word(self._text, begin, self._at)
        return self._text_term(begin, word)

    def _field(self, begin: int, name: str) -> RawTerm:
        sign = self._sign()
        mistakes.check_value(self._text, self._at, name, sign)
        values = [self._value()]
        while self._take(","):
            mistakes.check_list(self._text, self._at)
            values.append(self._value())
        self._end_of_term()
        return RawTerm(begin, name, sign, tuple(values))

    def _text_term(self, begin: int, value: RawValue) -> RawTerm:
        self._end_of_term()
        return RawTerm(begin, None, "", (value,))

    def _value(self) -> RawValue:
        if self._peek() == '"':
            return self._quoted()
        value = self._until(_VALUE_ENDS)
        if not value.text:
            raise FilterError(value.position, "a value is missing", 'write one, or "" for none')
        return value

    def _sign(self) -> str:
        return next((sign for sign in _SIGNS if self._take(sign)), "")

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
        if (character := self._peek()) and not character.isspace() and character != ")":
            advice = mistakes.after_value(character)
            raise FilterError(self._at, f"{character!r} after the end of a value", advice)

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
