"""From a Filter to an SQL condition on the index's relations, with every value bound.

The text is made of fixed pieces and the names of parameters, never of anything a person wrote. `narrow` reads
`letters` alone; `deep` also reads `document`, the payload as text, and is dear. A masked filter also calls
the function `redacted`. Known weakness: in contained text, letters outside ASCII match in the case given, in
lower and in upper case, not in a mixture of both.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import assert_never

from redrive.office.filters.parser import is_number
from redrive.office.filters.terms import (
    Aged,
    AllOf,
    AnyOf,
    Comparison,
    Counted,
    Dated,
    Filter,
    InPayload,
    Leaf,
    MomentField,
    Named,
    NameField,
    PayloadValue,
    Reasoned,
    Term,
    Text,
)
from redrive.office.filters.values import Pattern

Binding = str | int | float

_WITHOUT_QUOTES = frozenset(("true", "false", "null"))
_OPTIONAL = frozenset((NameField.CODE, NameField.KIND))
_PLACE = re.compile(r"\d{1,9}", re.ASCII)
_HIGHEST = "\U0010ffff"
# Only a letter that came back has died again: of any other there is no such instant, and nothing is so.
_MOMENTS = {
    MomentField.DIED: "first_died_at",
    MomentField.REDIED: "iif(died_at <> first_died_at, died_at, null)",
    MomentField.MOVED: "died_at",
    MomentField.ENQUEUED: "enqueued_at",
}
_AGE_SIGNS = {
    Comparison.EQUAL: "=",
    Comparison.MORE: "<",
    Comparison.AT_LEAST: "<=",
    Comparison.LESS: ">",
    Comparison.AT_MOST: ">=",
}


@dataclass(frozen=True, slots=True)
class Condition:
    """What a letter must satisfy. `deep` is None where the narrow table says everything."""

    narrow: str
    deep: str | None
    bindings: Mapping[str, Binding]


def compile_filter(asked: Filter, *, now: int, scope: str | None = None) -> Condition:
    """The filter as a condition at the instant `now`; beyond the tenant of a scope nothing is seen."""
    writing = _Writing(now, asked.masked)
    narrow = [] if scope is None else [f"tenant = {writing.bind(scope)}"]
    deep: list[str] = []
    for term in asked.terms:
        (deep if writing.is_deep(term) else narrow).append(writing.term(term))
    return Condition(
        " and ".join(narrow) or "true", " and ".join(deep) if deep else None, dict(writing.bindings)
    )


class _Writing:
    """A condition being written, and the values bound so far."""

    def __init__(self, now: int, masked: bool) -> None:
        self._now = now
        self._masked = masked
        self.bindings: dict[str, Binding] = {}

    def bind(self, value: Binding) -> str:
        """The parameter that stands for the value."""
        name = f"value_{len(self.bindings)}"
        self.bindings[name] = value
        return f":{name}"

    def is_deep(self, term: Term) -> bool:
        """Whether a term, or any of its group, reads the payload."""
        if isinstance(term, AnyOf | AllOf):
            return any(map(self.is_deep, term.terms))
        return isinstance(term, InPayload) or (isinstance(term, Text) and not self._masked)

    def term(self, term: Term) -> str:
        """A term in parentheses. What cannot be said of a letter (NULL) is not so, and its opposite is."""
        match term:
            case AnyOf():
                condition = " or ".join(map(self.term, term.terms))
            case AllOf():
                condition = " and ".join(map(self.term, term.terms))
            case _:
                condition = self._leaf(term)
        return f"(({condition}) is not true)" if term.negated else f"({condition})"

    def _leaf(self, term: Leaf) -> str:
        match term:
            case Named():
                return self._named(term)
            case Reasoned():
                words = f"reason in ({self._list([value.lower() for value in term.values])})"
                return " or ".join((words, *(self._in_failure(value) for value in term.values)))
            case Counted():
                return self._counted(term)
            case Aged():
                died_at = self.bind(self._now - term.duration_s * 1000)
                return f"first_died_at {_AGE_SIGNS[term.comparison]} {died_at}"
            case Dated():
                return f"{_MOMENTS[term.field]} {term.comparison.value} {self.bind(term.at)}"
            case InPayload():
                return self._in_payload(term)
            case Text():
                failed = self._in_failure(term.text)
                return failed if self._masked else f"{failed} or {self._contains('document', term.text)}"
        assert_never(term)

    def _named(self, term: Named) -> str:
        name = term.field.value
        column = f"coalesce({name}, '')" if term.field in _OPTIONAL else name
        exact = [value for value in term.values if isinstance(value, str)]
        ways = [f"{column} in ({self._list(exact)})"] if exact else []
        for pattern in term.values:
            if isinstance(pattern, Pattern):
                ways += self._fits(column, pattern)
        return " or ".join(ways)

    def _fits(self, column: str, pattern: Pattern) -> list[str]:
        if (prefix := pattern.prefix) is not None:
            return [f"({column} >= {self.bind(prefix)} and {column} < {self.bind(prefix + _HIGHEST)})"]
        return [f"{column} glob {self.bind(one)}" for one in pattern.globs()]

    def _counted(self, term: Counted) -> str:
        if term.comparison is Comparison.EQUAL:
            return f"{term.field.value} in ({self._list(term.values)})"
        return f"{term.field.value} {term.comparison.value} {self.bind(term.values[0])}"

    def _in_payload(self, term: InPayload) -> str:
        path = self.bind(json_path(term.path))
        found, kind = f"json_extract(document, {path})", f"json_type(document, {path})"
        number = f"{kind} in ('integer', 'real') and {found}"
        if term.comparison is not Comparison.EQUAL:
            value = self.bind(_number(term.values[0].text))
            wanted = f"{number} {term.comparison.value} {value}"
        else:
            wanted = " or ".join(self._equals(value, found, kind, number) for value in term.values)
        return f"case when json_valid(document) then {wanted} end"

    def _equals(self, value: PayloadValue, found: str, kind: str, number: str) -> str:
        text = self.bind(value.text)
        ways = [f"({kind} = 'text' and {found} = {text})"]
        if not value.quoted and is_number(value.text):
            ways.append(f"({number} = {self.bind(_number(value.text))})")
        if not value.quoted and value.text in _WITHOUT_QUOTES:
            ways.append(f"{kind} = {text}")
        return " or ".join(ways)

    def _in_failure(self, text: str) -> str:
        """Masking is dear, so that only what would be found without is masked and looked at again."""
        found = self._contains("failure", text)
        return f"({found} and {self._contains('redacted(failure)', text)})" if self._masked else found

    def _contains(self, column: str, text: str) -> str:
        spellings = {text} if text.isascii() else {text, text.lower(), text.upper()}
        ways = (f"{column} like {self.bind(_pattern(one))} escape '\\'" for one in sorted(spellings))
        return "(" + " or ".join(ways) + ")"

    def _list(self, values: Sequence[Binding]) -> str:
        return ", ".join(map(self.bind, values))


def json_path(path: Sequence[str]) -> str:
    """A path as SQLite's JSON functions read it: digits are a place in a list, all else a key."""
    steps = (f"[{part}]" if _PLACE.fullmatch(part) else f'."{part}"' for part in path)
    return "$" + "".join(steps)


def _pattern(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return f"%{escaped}%"


def _number(text: str) -> int | float:
    return float(text) if "." in text else int(text)
