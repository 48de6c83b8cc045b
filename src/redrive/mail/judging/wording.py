"""Which phrases a text says: the only pattern language that rules and users may use (S11).

A phrase is a row of words. `a|b` is either word, `temporar*` any ending, `...` up to six words between,
never across the end of a sentence or of a URL. Case, accents, apostrophes and punctuation do not count;
Chinese, Japanese and Korean characters are words of their own; an IPv4 address is the word `ipnumber`, a
mail address none. Matching walks the words of a bounded text once and takes bounded steps at each, whatever
the text. Known weakness: it knows no grammar, so "not blocked" says "blocked".
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

READ = 2_000
GAP = 6
_LONGEST_WORD = 40
_MOST_GAPS = 2
_STOP = "."
_EAST = r"\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
_WORD = re.compile(rf"[{_EAST}]|[^\W_{_EAST}]+|[.;!?。](?=\s|$)")
_EAST_WORD = re.compile(rf"[{_EAST}]{{2,}}")
_ADDRESS = re.compile(r"[^\s<>@,;:\"'()]{1,64}@[\w.-]{1,255}")
_URL = re.compile(r"https?://[^\s<>\")]{1,300}")
_IP_NUMBER = re.compile(r"(?<![\d.])\d{1,3}(?:\.\d{1,3}){3}(?![\d.])")
_APOSTROPHE = re.compile("['`\u2019\u00b4]")
_PLAIN_WORD = re.compile("[^\\W_]['\u2019\\w]{0,38}")
_E_MAIL = re.compile(r"\be-mail")


def plain(text: str) -> str:
    """The text's first part without what does not count: case, accents, apostrophes, addresses."""
    text = unicodedata.normalize("NFKD", text[:READ])
    text = "".join(letter for letter in text if not unicodedata.combining(letter))
    text = unicodedata.normalize("NFC", text).casefold()
    text = _URL.sub(r" . \g<0> . ", _ADDRESS.sub(" ", text))
    text = _APOSTROPHE.sub("", _IP_NUMBER.sub(" ipnumber ", text))
    return _E_MAIL.sub("email", text)


def words(text: str) -> list[str]:
    """The words of a text in order; the end of a sentence is a word of its own."""
    return [_STOP if word in ".;!?。" else word[:_LONGEST_WORD] for word in _WORD.findall(plain(text))]


@dataclass(frozen=True, slots=True)
class _Step:
    """One place in a phrase: the words that fit, and whether others may stand before it."""

    exact: frozenset[str]
    beginnings: tuple[str, ...]
    after_gap: bool

    def fits(self, word: str) -> bool:
        return word in self.exact or word.startswith(self.beginnings)


_Phrase = tuple[_Step, ...]


@cache
def read_phrase(phrase: str) -> _Phrase:
    """The steps of a phrase, or ValueError saying what is wrong with it."""
    steps: list[_Step] = []
    gap = False
    for part in _EAST_WORD.sub(lambda found: " ".join(found[0]), phrase).split():
        if part == "...":
            gap = True
            continue
        steps.append(_read_step(part, gap))
        gap = False
    if not steps or gap or steps[0].after_gap:
        raise ValueError(f"phrase {phrase!r} needs a word at its beginning and its end")
    if sum(step.after_gap for step in steps) > _MOST_GAPS:
        raise ValueError(f"phrase {phrase!r} has more than {_MOST_GAPS} gaps: make it two phrases")
    return tuple(steps)


def _read_step(part: str, gap: bool) -> _Step:
    choices = part.split("|")
    return _Step(
        frozenset(_read_word(choice) for choice in choices if not choice.endswith("*")),
        tuple(_read_word(choice[:-1]) for choice in choices if choice.endswith("*")),
        gap,
    )


@cache
def _read_word(word: str) -> str:
    if not _PLAIN_WORD.fullmatch(word):
        raise ValueError(f"{word!r} is not a word: letters and digits, with * at its end for any ending")
    return plain(word)


class Vocabulary:
    """Named lists of phrases, indexed by their first word."""

    def __init__(self, lists: Mapping[str, Iterable[str]]) -> None:
        self._exact: dict[str, list[tuple[_Phrase, str]]] = {}
        self._beginnings: dict[str, list[tuple[_Phrase, str]]] = {}
        for name, phrases in lists.items():
            for phrase in phrases:
                self._add(read_phrase(phrase), name)

    def _add(self, phrase: _Phrase, name: str) -> None:
        for word in phrase[0].exact:
            self._exact.setdefault(word, []).append((phrase, name))
        for beginning in phrase[0].beginnings:
            self._beginnings.setdefault(beginning, []).append((phrase, name))

    def said(self, text: str) -> frozenset[str]:
        """The names of the lists of which the text says at least one phrase."""
        found: set[str] = set()
        row = words(text)
        for index, word in enumerate(row):
            for phrase, name in self._starting(word):
                if name not in found and _goes_on(phrase, 1, row, index + 1):
                    found.add(name)
        return frozenset(found)

    def _starting(self, word: str) -> Iterable[tuple[_Phrase, str]]:
        yield from self._exact.get(word, ())
        for length in range(1, len(word) + 1):
            yield from self._beginnings.get(word[:length], ())


def _goes_on(phrase: _Phrase, place: int, row: Sequence[str], index: int) -> bool:
    if place == len(phrase):
        return True
    step = phrase[place]
    for at in range(index, min(len(row), index + (GAP if step.after_gap else 0) + 1)):
        if step.fits(row[at]) and _goes_on(phrase, place + 1, row, at + 1):
            return True
        if row[at] == _STOP:
            return False
    return False
