"""A filter as it is understood: a tuple of terms that must all hold, each frozen and already checked.

A term is a leaf, or a group of terms of which any or all must hold. Each may be turned around by `negated`.
`str` of a filter is its canonical text, and parsing that gives an equal filter. Nothing here knows SQL.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum

from redrive.core.values import instant
from redrive.office.filters.names import AGE, PAYLOAD, REASON
from redrive.office.filters.names import MomentField as MomentField
from redrive.office.filters.names import NameField as NameField
from redrive.office.filters.names import NumberField as NumberField
from redrive.office.filters.values import Pattern, is_text_word, plain, plain_name, quote

_UNITS = (("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1))
_PLAIN_TEXT = re.compile(r"[\w.@/+][\w.@/+-]*")


class Comparison(StrEnum):
    """How a value stands to what a letter has."""

    EQUAL = "="
    MORE = ">"
    AT_LEAST = ">="
    LESS = "<"
    AT_MOST = "<="


@dataclass(frozen=True, slots=True)
class Named:
    """The field is one of these values, or fits a pattern; an empty value is a letter that has none."""

    field: NameField
    values: tuple[str | Pattern, ...]
    negated: bool = False

    def __str__(self) -> str:
        values = (
            one.text if isinstance(one, Pattern) else plain_name(self.field, one) for one in self.values
        )
        return _field(self.negated, self.field, ",".join(values))


@dataclass(frozen=True, slots=True)
class Reasoned:
    """The reason is one of these words, or the last failure's text contains one of them."""

    values: tuple[str, ...]
    negated: bool = False

    def __str__(self) -> str:
        return _field(self.negated, REASON, ",".join(map(plain, self.values)))


@dataclass(frozen=True, slots=True)
class Counted:
    """The number compares so with one of these; more than one only with EQUAL."""

    field: NumberField
    comparison: Comparison
    values: tuple[int, ...]
    negated: bool = False

    def __str__(self) -> str:
        return _field(self.negated, self.field, _sign(self.comparison) + ",".join(map(str, self.values)))


@dataclass(frozen=True, slots=True)
class Aged:
    """First dead for so long."""

    comparison: Comparison
    duration_s: int
    negated: bool = False

    def __str__(self) -> str:
        return _field(self.negated, AGE, f"{self.comparison}{_duration(self.duration_s)}")


@dataclass(frozen=True, slots=True)
class Dated:
    """The instant is before or after this one."""

    field: MomentField
    comparison: Comparison
    at: int
    negated: bool = False

    def __str__(self) -> str:
        return _field(self.negated, self.field, f"{self.comparison}{instant(self.at)}")


@dataclass(frozen=True, slots=True)
class PayloadValue:
    """A value looked for in the payload; quoted, it is a string and nothing else."""

    text: str
    quoted: bool = False

    def __str__(self) -> str:
        return quote(self.text) if self.quoted else self.text


@dataclass(frozen=True, slots=True)
class InPayload:
    """What stands at a path of the payload; with a comparison other than EQUAL, a number."""

    path: tuple[str, ...]
    comparison: Comparison
    values: tuple[PayloadValue, ...]
    negated: bool = False

    def __str__(self) -> str:
        name = ".".join((PAYLOAD, *self.path))
        return _field(self.negated, name, _sign(self.comparison) + ",".join(map(str, self.values)))


@dataclass(frozen=True, slots=True)
class Text:
    """The last failure's text or the payload contains this."""

    text: str
    negated: bool = False

    def __str__(self) -> str:
        bare = _PLAIN_TEXT.fullmatch(self.text) and is_text_word(self.text)
        return f"{_minus(self.negated)}{self.text if bare else quote(self.text)}"

    @property
    def in_quotes(self) -> str:
        return f"{_minus(self.negated)}{quote(self.text)}"


Leaf = Named | Reasoned | Counted | Aged | Dated | InPayload | Text


@dataclass(frozen=True, slots=True)
class AnyOf:
    """At least one of these holds. Text stands in quotes here, as `parser` demands of it beside OR."""

    terms: tuple[Term, ...]
    negated: bool = False

    def __str__(self) -> str:
        shown = (one.in_quotes if isinstance(one, Text) else str(one) for one in self.terms)
        return f"{_minus(self.negated)}({' OR '.join(shown)})"


@dataclass(frozen=True, slots=True)
class AllOf:
    """All of these hold."""

    terms: tuple[Term, ...]
    negated: bool = False

    def __str__(self) -> str:
        return f"{_minus(self.negated)}({' '.join(map(str, self.terms))})"


Term = Leaf | AnyOf | AllOf


@dataclass(frozen=True, slots=True)
class Filter:
    """Terms that must all hold; without any, every letter is meant.

    `masked`: for someone who sees letters with masks. Failures are compared as they are shown then, and text
    is not looked for in payloads. It belongs to who asks, and is not part of the text.
    """

    terms: tuple[Term, ...] = ()
    masked: bool = False

    def __str__(self) -> str:
        return " ".join(map(str, self.terms))

    @property
    def leaves(self) -> Iterator[Leaf]:
        """The terms without their groups."""
        return _leaves(self.terms)


def opposite(term: Term) -> Term:
    """The term turned around."""
    return replace(term, negated=not term.negated)


def all_of(terms: Iterable[Term]) -> Term:
    """All of them as one term; a group of all among them is not kept as a group."""
    flat = tuple(one for term in terms for one in unpacked(term, AllOf))
    return flat[0] if len(flat) == 1 else AllOf(flat)


def any_of(terms: Iterable[Term]) -> Term:
    """Any of them as one term, likewise."""
    flat = tuple(one for term in terms for one in unpacked(term, AnyOf))
    return flat[0] if len(flat) == 1 else AnyOf(flat)


def unpacked(term: Term, kind: type[AnyOf] | type[AllOf]) -> tuple[Term, ...]:
    """The terms of a group of this kind; any other term alone."""
    return term.terms if isinstance(term, kind) and not term.negated else (term,)


def _leaves(terms: Iterable[Term]) -> Iterator[Leaf]:
    for term in terms:
        if isinstance(term, AnyOf | AllOf):
            yield from _leaves(term.terms)
        else:
            yield term


def _field(negated: bool, name: str, value: str) -> str:
    return f"{_minus(negated)}{name}:{value}"


def _minus(negated: bool) -> str:
    return "-" if negated else ""


def _sign(comparison: Comparison) -> str:
    return "" if comparison is Comparison.EQUAL else comparison.value


def _duration(seconds: int) -> str:
    parts = []
    for name, size in _UNITS:
        count, seconds = divmod(seconds, size)
        parts += [f"{count}{name}"] if count else []
    return "".join(parts) or "0s"
