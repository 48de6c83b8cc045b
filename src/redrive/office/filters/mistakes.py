"""What other languages, keyboards and tired people write in a filter, and the spelling that is right.

A filter that is misread may discard the wrong letters, so nothing that looks like an operator is ever taken
for text: it is refused with its place, by the one error of the language. In quotes everything is text.
"""

from __future__ import annotations

import re

from redrive.core.errors import RedriveError
from redrive.office.filters.names import field_name
from redrive.office.filters.values import FOREIGN, OPERATORS, PLUS, is_text_word

CURLY = "\u201c\u201d\u201e\u201f\u00ab\u00bb\u2018\u2019\u201a\u201b\uff02`"
_DASHES = "\u2010\u2011\u2012\u2013\u2014\u2015\u2212"
_WIDE_COLON = "\uff1a"
ODD_SIGNS = f"≠≥≤{_WIDE_COLON}"
_COMPARED = re.compile(rf"\s*(==|=~|!=|<>|=>|=<|>=|<=|=|>|<|!|~|≠|≥|≤|{_WIDE_COLON}|:)\s*([^\s(),]{{0,40}})")
_SIGNS = {"=>": ">=", "=<": "<=", "≥": ">=", "≤": "<="}
_OPPOSITES = frozenset(("!=", "<>", "!", "≠"))
_ASKED = re.compile(r"[^\s(),\"]{1,40}")
_WORDS = {"&": "AND", "|": "OR", "!": "NOT"}
_QUOTES = 'write field:value, or put text to search for in "quotes"'


class FilterError(RedriveError):
    """A filter that cannot be read: where (counted from 0), what is wrong, what to do."""

    def __init__(self, position: int, problem: str, advice: str) -> None:
        self.position, self.problem, self.advice = position, problem, advice
        super().__init__(f"filter, character {position + 1}: {problem}: {advice}")


def check_minus(text: str, at: int) -> None:
    """After a minus something must follow at once."""
    following = text[at : at + 1]
    if not following or following.isspace() or following == ")":
        raise FilterError(at, "a lone -", "write it right before a term, as in -code:550")
    if following == "-":
        raise FilterError(at, "two minus signs", "one turns a term around; leave both out for none")
    if text[at : at + 3].lower() == "not" and text[at + 3 : at + 4] in ("", " ", "("):
        raise FilterError(at, "a minus before NOT", "one of them turns a term around")


def check_start(text: str, at: int) -> None:
    """What no term begins with."""
    character = text[at]
    if character in CURLY or character == "'":
        raise FilterError(
            at, f"a quote of another kind, {character}", 'put text in straight double quotes: "'
        )
    if character in _DASHES:
        raise FilterError(
            at, f"a dash of another kind, {character}", "turn a term around by a plain minus: -"
        )
    if character in _WORDS:
        raise FilterError(at, f"{character!r} is not an operator here", f"write {_WORDS[character]}")
    if character in f":=<>,~^≠≥≤{_WIDE_COLON}":
        raise FilterError(at, f"a stray {character!r}", _QUOTES)


def check_word(text: str, begin: int, end: int) -> None:
    """A bare word that ends at `end`: refused unless it can only be meant as text."""
    word, following = text[begin:end], text[end : end + 1]
    if following in _WORDS and following != "!":
        advice = f"write {_WORDS[following]} between terms, with spaces"
        raise FilterError(end, f"{following!r} is not an operator here", advice)
    if word.lower() in OPERATORS:
        raise FilterError(
            begin, f"{word!r} is an operator", f'write {word.upper()}, or "{word}" for the text'
        )
    if word == PLUS:
        raise FilterError(begin, "a lone +", "leave it out: terms that stand together must all hold")
    if word in FOREIGN:
        advice = f'combine terms by AND, OR, NOT; write "{word}" in quotes for the text'
        raise FilterError(begin, f"there is no operator {word}", advice)
    if following in ('"', ",", *CURLY):
        raise FilterError(end, f"a stray {following!r}", _QUOTES)
    field = field_name(word)
    compared = _COMPARED.match(text, end)
    if compared is not None and (field is not None or compared.start(1) == end):
        raise FilterError(
            compared.start(1), f"{compared[1]!r} after {word[:40]!r}", _spelling(word, field, compared)
        )
    if field is not None:
        asked = _ASKED.match(text, end + 1)
        meant = asked and is_text_word(asked[0].upper()) and ":" not in asked[0]
        value = asked[0] if asked and meant else "VALUE"
        advice = f'write {word}:{value}, or "{word}" in quotes for the text'
        raise FilterError(begin, f"{word!r} is a field and has no value", advice)
    if any(sign in word for sign in "*?") or word.startswith("%") or word.endswith("%"):
        found = word.strip("*?%") or "a word"
        advice = f"text is found within words, without wildcards: write {found[:40]}, or quote it"
        raise FilterError(begin, f"{word[:40]!r} has a wildcard", advice)


def check_value(text: str, at: int, name: str, sign: str) -> None:
    """What may stand after `field:` and its sign."""
    rest = text[at:]
    character = rest[:1]
    if character.isspace() and (asked := _ASKED.match(text, at + len(rest) - len(rest.lstrip()))):
        advice = f"write {name}:{sign}{asked[0]} without a space"
        raise FilterError(at, "a value is missing", advice)
    if character == "(":
        raise FilterError(at, "a parenthesis in a value", f"write the values with commas: {name}:504,503")
    if character and (character in _WORDS or character in "=~≠≥≤"):
        compared = _COMPARED.match(text, at)
        advice = f"write {name}:value" if compared is None else _spelling(name, field_name(name), compared)
        raise FilterError(at, f"a stray {character!r}", advice)
    check_list(text, at)


def check_list(text: str, at: int) -> None:
    """What may stand where a value begins."""
    character = text[at : at + 1]
    if character and (character in CURLY or character == "'"):
        advice = 'put the value in straight double quotes: "'
        raise FilterError(at, f"a quote of another kind, {character}", advice)
    if character.isspace():
        raise FilterError(at, "a value is missing", "write the values without spaces: code:450,451")


def after_value(character: str) -> str:
    """What to do about a character right after the end of a value."""
    if character in CURLY:
        return 'use straight double quotes: "'
    if character in "(&|":
        return 'put a space between terms, and a value with such signs in "quotes"'
    return "put a space between terms"


def _spelling(name: str, field: str | None, compared: re.Match[str]) -> str:
    sign, value = compared[1], compared[2] or "VALUE"
    if field is None:
        return _QUOTES
    if sign in _OPPOSITES:
        return f"write -{name}:{value}"
    if sign in ("=", "==", "=~", "~", ":", _WIDE_COLON):
        return f"write {name}:{value}"
    return f"write {name}:{_SIGNS.get(sign, sign)}{value}"
