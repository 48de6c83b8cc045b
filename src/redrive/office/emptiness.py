"""Why a filter finds nothing: what each of its terms finds alone, and the values near those it names.

It answers only what its asker could ask term by term: within the scope, with the filter's masks. Near values
are those of fields that every list shows; one that a mask would change is left out. All of it together has a
short time, and what would take longer is left unknown.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from difflib import get_close_matches

import apsw

from redrive.core.redaction import redact
from redrive.machine.statements import load_sections
from redrive.office.filters import Condition, Filter
from redrive.office.filters.names import REASON
from redrive.office.filters.terms import Named, NameField, Reasoned, Term
from redrive.office.filters.values import Pattern
from redrive.office.index import Index, TimeLimit
from redrive.office.index.find import count

TERMS = 10
NEAR = 3
_TIME_S = 0.5
_VALUES = 2_000
_ALIKE = 0.6
_SHOWN_FIELDS = frozenset((NameField.QUEUE, NameField.TENANT, NameField.CODE, NameField.KIND))
_SQL = load_sections("redrive.office", "statements/find.sql")


@dataclass(frozen=True, slots=True)
class TermAlone:
    """How many letters a term finds without the others; None where that takes too long."""

    term: str
    letters: int | None


@dataclass(frozen=True, slots=True)
class Near:
    """A value that no letter has, and the values most like it (`alike`) or else the most frequent."""

    field: str
    value: str
    alike: bool
    values: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class Emptiness:
    """Why nothing was found: the first terms alone, and values near those that no letter has."""

    terms: tuple[TermAlone, ...]
    near: tuple[Near, ...]

    @property
    def sentences(self) -> Iterator[str]:
        """For people: "no tenant Acme; acme has 41"."""
        for one in self.near:
            others = ", ".join(f"{value} has {letters:,}" for value, letters in one.values)
            yield f"no {one.field} {one.value}" + (f"; {others}" if others else "")
        if len(self.terms) > 1:
            yield "alone: " + "; ".join(map(_found, self.terms))


async def explain_empty(
    index: Index, asked: Filter, found: int = 0, *, scope: str | None = None
) -> Emptiness | None:
    """What to say of a filter that finds nothing; None where it found some, or where all were asked for."""
    if found or not asked.terms:
        return None
    terms = asked.terms[:TERMS]
    alone = [(term, index.compile(Filter((term,), asked.masked), scope)) for term in terms]
    looking = _Looking(index.compile(Filter(), scope), asked.masked)
    with suppress(TimeLimit):
        await index.read(lambda db: looking.look(db, asked, alone), _TIME_S)
    counted = tuple(TermAlone(str(term), looking.counts.get(term)) for term in terms)
    return Emptiness(counted, tuple(looking.near[:TERMS]))


class _Looking:
    """What is known so far; the cheap questions come first, and time may end between any two."""

    def __init__(self, everything: Condition, masked: bool) -> None:
        self._everything = everything
        self._masked = masked
        self.near: list[Near] = []
        self.counts: dict[Term, int] = {}

    def look(self, db: apsw.Connection, asked: Filter, alone: list[tuple[Term, Condition]]) -> None:
        for leaf in asked.leaves:
            if isinstance(leaf, Named) and leaf.field in _SHOWN_FIELDS and not leaf.negated:
                self._compare(db, leaf.field, leaf.values)
        for term, condition in sorted(alone, key=lambda one: one[1].deep is not None):
            self.counts[term] = count(db, condition)
            if isinstance(term, Reasoned) and not term.negated and not self.counts[term]:
                self._compare(db, REASON, term.values)

    def _compare(self, db: apsw.Connection, field: str, values: Iterable[str | Pattern]) -> None:
        there = self._values(db, field)
        for value in values:
            if isinstance(value, str) and value not in there and len(self.near) < TERMS:
                alike = _alike(value, there)
                chosen = alike or list(there)[:NEAR]
                shown = tuple((one, there[one]) for one in chosen)
                self.near.append(Near(field, value, bool(alike), shown))

    def _values(self, db: apsw.Connection, field: str) -> dict[str, int]:
        """The field's values with their letters, the most frequent first."""
        statement = _SQL["values"].format(column=field, narrow=self._everything.narrow)
        rows = db.execute(statement, {**self._everything.bindings, "size": _VALUES})
        return {value: letters for value, letters in rows if not self._masked or redact(value) == value}


def _alike(value: str, there: dict[str, int]) -> list[str]:
    """Those equal but for their case first, then those most like it."""
    by_lower: dict[str, list[str]] = {}
    for one in there:
        by_lower.setdefault(one.lower(), []).append(one)
    near = get_close_matches(value.lower(), by_lower, NEAR, _ALIKE)
    return [one for lower in near for one in by_lower[lower]][:NEAR]


def _found(one: TermAlone) -> str:
    return (
        f"{one.term} finds {'too many to count in time' if one.letters is None else format(one.letters, ',')}"
    )
