"""What a filter means, once more: in plain Python, on plain letters, without the office's SQL."""

from __future__ import annotations

import json
import operator
import re
from dataclasses import dataclass
from typing import Any

from redrive.office.filters.terms import (
    Aged,
    AllOf,
    AnyOf,
    Comparison,
    Counted,
    Dated,
    Filter,
    InPayload,
    Named,
    PayloadValue,
    Reasoned,
    Term,
    Text,
)
from redrive.office.filters.values import Pattern

SIGNS = {
    Comparison.EQUAL: operator.eq,
    Comparison.MORE: operator.gt,
    Comparison.AT_LEAST: operator.ge,
    Comparison.LESS: operator.lt,
    Comparison.AT_MOST: operator.le,
}
MISSING = object()


@dataclass(frozen=True)
class Letter:
    """A row of the index and its payload."""

    id: str
    queue: str
    tenant: str
    reason: str
    kind: str | None
    code: str | None
    failure: str
    fingerprint: str
    attempts: int
    redriven: int
    enqueued: int
    died: int
    moved: int
    body: str

    @property
    def redied(self) -> int | None:
        return None if self.moved == self.died else self.moved

    @property
    def row(self) -> tuple[str | int | float | None, ...]:
        return (
            *(self.id, self.queue, self.tenant, self.reason, self.kind, self.code, self.failure),
            *(self.fingerprint, self.attempts, self.redriven, 0, self.enqueued, self.moved, 1.5, self.died),
        )


def meant(asked: Filter, letter: Letter, now: int) -> bool:
    """Whether the filter means the letter."""
    return all(holds(term, letter, now) for term in asked.terms)


def holds(term: Term, letter: Letter, now: int) -> bool:
    """Whether one term holds of a letter."""
    return _plainly(term, letter, now) is not term.negated


def _plainly(term: Term, letter: Letter, now: int) -> bool:
    match term:
        case AnyOf():
            return any(holds(one, letter, now) for one in term.terms)
        case AllOf():
            return all(holds(one, letter, now) for one in term.terms)
        case Named():
            value = getattr(letter, term.field.value) or ""
            return any(_fits(one, value) for one in term.values)
        case Reasoned():
            words = [one.lower() for one in term.values]
            return letter.reason in words or any(word in letter.failure.lower() for word in words)
        case Counted():
            count = getattr(letter, term.field.value)
            return any(SIGNS[term.comparison](count, one) for one in term.values)
        case Aged():
            return bool(SIGNS[term.comparison](now - letter.died, term.duration_s * 1000))
        case Dated():
            at = getattr(letter, term.field.value)
            return at is not None and bool(SIGNS[term.comparison](at, term.at))
        case Text():
            return term.text.lower() in letter.failure.lower() or term.text.lower() in letter.body.lower()
        case InPayload():
            found = _at(json.loads(letter.body), term.path)
            return found is not MISSING and any(_equals(term.comparison, one, found) for one in term.values)


def _fits(wanted: str | Pattern, value: str) -> bool:
    if isinstance(wanted, str):
        return wanted == value
    if wanted.text.endswith("*"):
        return value.startswith(wanted.text[:-1])
    digits = r"\d{1,3}" if "." in wanted.text else r"\d"
    return re.fullmatch(re.escape(wanted.text).replace("x", digits), value) is not None


def _at(found: Any, path: tuple[str, ...]) -> Any:
    for part in path:
        if isinstance(found, list):
            found = found[int(part)] if part.isdigit() and int(part) < len(found) else MISSING
        elif isinstance(found, dict) and not part.isdigit():
            found = found.get(part, MISSING)
        else:
            return MISSING
    return found


def _equals(comparison: Comparison, wanted: PayloadValue, found: Any) -> bool:
    number = isinstance(found, int | float) and not isinstance(found, bool)
    if comparison is not Comparison.EQUAL:
        return number and bool(SIGNS[comparison](found, float(wanted.text)))
    if isinstance(found, str):
        return found == wanted.text
    if wanted.quoted or isinstance(found, dict | list):
        return False
    if number:
        return re.fullmatch(r"-?\d+(\.\d+)?", wanted.text) is not None and found == float(wanted.text)
    return json.dumps(found) == wanted.text
