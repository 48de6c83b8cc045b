"""Which phrases a text says: the only pattern language that rules and users may use.

A phrase is a row of words. `a|b` is either word, `temporar*` any ending, `~a` not just after a "not", and
`...` up to six words between, never across the end of a sentence or of a URL. Where a clause ends (a comma,
a colon, a bracket, "because") counts as two words more, so that what is far apart is not read together. Case,
accents, apostrophes and other punctuation do not count; Chinese, Japanese and Korean characters are words of
their own; an IP address is the word `ipnumber`, a mail address none. Matching walks the words of a bounded
text once and takes bounded steps at each, whatever the text. Known weakness: it knows no other grammar.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache

READ = 2_000
GAP = 6
_CLAUSE_COST = 2
_LONGEST_WORD = 40
_MOST_GAPS = 2
_STOP = "."
_STOPS = frozenset(".;!?。")
_EAST = r"\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
_WORD = re.compile(
    rf"[{_EAST}]|[^\W_{_EAST}]+|[.;!?。](?=\s|$)|[,:](?=\s)|[(\[](?=\w)|[)\]](?=\s)| [-\u2013] "
)
_CLAUSE = frozenset({"because", "but", "however", "if", "please", "since", "unless", "while"})
_NOT = frozenset(
    {"not", "no", "never", "isnt", "arent", "wasnt", "nicht", "pas", "non", "nao", "niet", "nie", "не"}
)
_NOT_BEFORE = 2
_EAST_WORD = re.compile(rf"[{_EAST}]{{2,}}")
_ADDRESS = re.compile(r"[^\s<>@,;:\"'()]{1,64}@[\w.-]{1,255}")
_URL = re.compile(r"https?://[^\s<>\")]{1,300}")
_IP_NUMBER = re.compile(
    r"(?<![\d.])\d{1,3}(?:\.\d{1,3}){3}(?!\d|\.\d)"
    r"|(?<![\w:])(?=[0-9:]{0,39}(?:::|[a-f]))[0-9a-f]{1,4}(?::{1,2}[0-9a-f]{1,4}){2,7}(?![\w:])"
)
_APOSTROPHE = re.compile("['`\u2019\u00b4]")
_PLAIN_WORD = re.compile("[^\\W_]['\u2019\\w]{0,38}")
_JOINED = re.compile(
    r"\b(e(?=-mail)|mail(?=[ -]server)|anti(?=[ -](?:spam|virus))|dial(?=-up)"
    r"|(?:black|block|deny)(?=[ -]list))[ -]"
)


def plain(text: str) -> str:
    """The text's first part without what does not count: case, accents, apostrophes, addresses."""
    text = unicodedata.normalize("NFKD", text[:READ])
    text = "".join(letter for letter in text if not unicodedata.combining(letter))
    text = unicodedata.normalize("NFC", text).casefold()
    text = _URL.sub(r" . \g<0> . ", _ADDRESS.sub(" ", text))
    text = _APOSTROPHE.sub("", _IP_NUMBER.sub(" ipnumber ", text))
    return _JOINED.sub(r"\1", text)


class Words:
    """The words of a text in order. A sentence ends with a word of its own, a clause with some distance."""

    def __init__(self, text: str) -> None:
        self.row: list[str] = []
        self._clauses: list[int] = []
        clauses = 0
        for word in _WORD.findall(plain(text)):
            mark = not word[0].isalnum() and word not in _STOPS
            clauses += mark or word in _CLAUSE
            if not mark:
                self.row.append(_STOP if word in _STOPS else word[:_LONGEST_WORD])
                self._clauses.append(clauses)

    def distance(self, before: int, after: int) -> int:
        """How far apart two words are: the words between them, and more for each clause that ends there."""
        return after - before - 1 + _CLAUSE_COST * (self._clauses[after] - self._clauses[before])

    def denied(self, index: int) -> bool:
        """Whether a "not" stands just before a word."""
        return not _NOT.isdisjoint(self.row[max(0, index - _NOT_BEFORE) : index])


@dataclass(frozen=True, slots=True)
class _Step:
    """One place in a phrase: the words that fit, whether others may stand before it, or a "not"."""

    exact: frozenset[str]
    beginnings: tuple[str, ...]
    after_gap: bool
    affirmed: bool

    def fits(self, words: Words, index: int) -> bool:
        word = words.row[index]
        if word not in self.exact and not word.startswith(self.beginnings):
            return False
        return not self.affirmed or not words.denied(index)


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
    affirmed = part.startswith("~")
    choices = part.removeprefix("~").split("|")
    return _Step(
        frozenset(_read_word(choice) for choice in choices if not choice.endswith("*")),
        tuple(_read_word(choice[:-1]) for choice in choices if choice.endswith("*")),
        gap,
        affirmed,
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
        words = Words(text)
        for index, word in enumerate(words.row):
            for phrase, name in self._starting(word):
                if name in found or (phrase[0].affirmed and words.denied(index)):
                    continue
                if _goes_on(phrase, 1, words, index):
                    found.add(name)
        return frozenset(found)

    def _starting(self, word: str) -> Iterable[tuple[_Phrase, str]]:
        yield from self._exact.get(word, ())
        for length in range(1, len(word) + 1):
            yield from self._beginnings.get(word[:length], ())


def _goes_on(phrase: _Phrase, place: int, words: Words, index: int) -> bool:
    """Whether the phrase goes on after the word at `index`."""
    if place == len(phrase):
        return True
    step = phrase[place]
    if not step.after_gap:
        at = index + 1
        return at < len(words.row) and step.fits(words, at) and _goes_on(phrase, place + 1, words, at)
    for at in range(index + 1, min(len(words.row), index + GAP + 2)):
        if words.row[at] == _STOP:
            return False
        if (
            step.fits(words, at)
            and words.distance(index, at) <= GAP
            and _goes_on(phrase, place + 1, words, at)
        ):
            return True
    return False
