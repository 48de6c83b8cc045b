"""A filter as it is understood: a tuple of terms that must all hold, each frozen and already checked.

`str` of a filter is its canonical text, and parsing that gives an equal filter. Nothing here knows SQL.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from redrive.office.wire import instant

_UNITS = (("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1))
_PLAIN_VALUE = re.compile(r"[\w.@/+:-]+")
_PLAIN_TEXT = re.compile(r"[\w.@/+][\w.@/+-]*")


class Comparison(StrEnum):
    """How a value stands to what a letter has."""

    EQUAL = "="
    MORE = ">"
    AT_LEAST = ">="
    LESS = "<"
    AT_MOST = "<="


class NameField(StrEnum):
    """Fields that are compared letter by letter."""

    ID = "id"
    QUEUE = "queue"
    TENANT = "tenant"
    CODE = "code"
    KIND = "kind"
    FINGERPRINT = "fingerprint"


class NumberField(StrEnum):
    """Fields that count."""

    ATTEMPTS = "attempts"
    REDRIVEN = "redriven"


class MomentField(StrEnum):
    """Fields that are instants."""

    DIED = "died"
    ENQUEUED = "enqueued"


REASON = "reason"
AGE = "age"
PAYLOAD = "payload"
FIELDS: tuple[str, ...] = (*NameField, REASON, *NumberField, AGE, *MomentField, f"{PAYLOAD}.<path>")


@dataclass(frozen=True, slots=True)
class Named:
    """The field is one of these values; an empty value is a letter that has none."""

    field: NameField
    values: tuple[str, ...]
    negated: bool = False

    def __str__(self) -> str:
        return _field(self.negated, self.field, ",".join(map(_value, self.values)))


@dataclass(frozen=True, slots=True)
class Reasoned:
    """The reason is one of these words, or the last failure's text contains one of them."""

    values: tuple[str, ...]
    negated: bool = False

    def __str__(self) -> str:
        return _field(self.negated, REASON, ",".join(map(_value, self.values)))


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
    """Dead for so long."""

    comparison: Comparison
    duration_s: int
    negated: bool = False

    def __str__(self) -> str:
        name, size = next(unit for unit in _UNITS if self.duration_s % unit[1] == 0)
        return _field(self.negated, AGE, f"{self.comparison}{self.duration_s // size}{name}")


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
        return _quote(self.text) if self.quoted else self.text


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
        shown = self.text if _PLAIN_TEXT.fullmatch(self.text) else _quote(self.text)
        return f"-{shown}" if self.negated else shown


Term = Named | Reasoned | Counted | Aged | Dated | InPayload | Text


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


def _field(negated: bool, name: str, value: str) -> str:
    return f"{'-' if negated else ''}{name}:{value}"


def _sign(comparison: Comparison) -> str:
    return "" if comparison is Comparison.EQUAL else comparison.value


def _value(text: str) -> str:
    return text if _PLAIN_VALUE.fullmatch(text) else _quote(text)


def _quote(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
