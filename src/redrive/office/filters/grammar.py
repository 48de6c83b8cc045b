"""From tokens to a filter: NOT before AND and OR, parentheses where AND and OR meet.

Terms side by side are joined as by AND. Whoever forgets which of AND and OR goes first would discard the
wrong letters, so both beside each other are refused without parentheses; so is a combination that no letter,
or every letter, fits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import NoReturn

from redrive.office.filters.mistakes import FilterError
from redrive.office.filters.terms import (
    AllOf,
    AnyOf,
    Comparison,
    Counted,
    Filter,
    Named,
    Term,
    all_of,
    any_of,
    opposite,
    unpacked,
)
from redrive.office.filters.tokens import Mark, RawMark, RawTerm, Token
from redrive.office.filters.values import Pattern, plain

TERMS = 50
_DEPTH = 20

Reader = Callable[[RawTerm], Term]


@dataclass(frozen=True, slots=True)
class _Placed:
    """A term, where it stands, and whether it is text without quotes."""

    term: Term
    position: int
    bare: bool = False


def arrange(tokens: Sequence[Token], length: int, read: Reader) -> Filter:
    """The filter of these tokens of a text of this length; `read` understands a single term."""
    if not tokens:
        return Filter()
    terms = [token for token in tokens if isinstance(token, RawTerm)]
    if len(terms) > TERMS:
        raise FilterError(terms[TERMS].position, f"more than {TERMS} terms", "make the filter shorter")
    grammar = _Grammar(tokens, length, read)
    found = Filter(unpacked(grammar.group(0).term, AllOf))
    grammar.end()
    # A range is two terms in a group, so that there may be more of both than were written.
    if len(list(found.leaves)) > TERMS or _depth(found.terms) > _DEPTH:
        raise FilterError(length, f"more than {TERMS} terms or {_DEPTH} groups deep", "make it shorter")
    return found


class _Grammar:
    """A place among tokens, and what is understood from there on."""

    def __init__(self, tokens: Sequence[Token], length: int, read: Reader) -> None:
        self._tokens = tokens
        self._length = length
        self._read = read
        self._at = 0

    def group(self, depth: int) -> _Placed:
        """Terms up to a closing parenthesis or the end."""
        parts = [self._part(depth)]
        joined: Mark | None = None
        while (token := self._peek()) is not None and not _is(token, Mark.CLOSE):
            mark = self._joint(token)
            if joined not in (None, mark):
                advice = "say which goes first: tenant:acme (code:503 OR code:504)"
                raise FilterError(token.position, "AND and OR side by side", advice)
            joined = mark
            parts.append(self._part(depth))
        if len(parts) == 1:
            return parts[0]
        if joined is Mark.OR:
            _check_any(parts)
            return _Placed(any_of(one.term for one in parts), parts[0].position)
        _check_all(parts)
        return _Placed(all_of(one.term for one in parts), parts[0].position)

    def end(self) -> None:
        """Nothing may follow."""
        if (token := self._peek()) is not None:
            raise FilterError(token.position, "a ) without its (", "leave it out, or open one before")

    def _joint(self, token: Token) -> Mark:
        """AND or OR, taken; terms side by side are AND."""
        if not isinstance(token, RawMark) or token.mark not in (Mark.AND, Mark.OR):
            return Mark.AND
        self._at += 1
        return token.mark

    def _part(self, depth: int) -> _Placed:
        """One term or group, turned around by each NOT before it."""
        turns, begin = 0, self._position()
        while (token := self._peek()) is not None and _is(token, Mark.NOT):
            self._at += 1
            turns += 1
        if token is None:
            self._refuse_missing()
        self._at += 1
        if isinstance(token, RawTerm):
            found = _Placed(self._read(token), begin, token.name is None and not token.values[0].quoted)
        elif token.mark is Mark.OPEN:
            found = self._parenthesis(token, depth)
        else:
            self._at -= 1
            self._refuse_missing()
        return _Placed(opposite(found.term), begin, found.bare) if turns % 2 else found

    def _parenthesis(self, opened: RawMark, depth: int) -> _Placed:
        if depth == _DEPTH:
            raise FilterError(opened.position, f"more than {_DEPTH} parentheses deep", "make it flatter")
        found = self.group(depth + 1)
        if self._peek() is None:
            raise FilterError(opened.position, "a ( that is never closed", "end it with )")
        self._at += 1
        return _Placed(found.term, opened.position, found.bare)

    def _refuse_missing(self) -> NoReturn:
        before = self._tokens[self._at - 1] if self._at else None
        after = self._peek()
        beside = f"after {before.mark.value}" if isinstance(before, RawMark) else ""
        if not beside and isinstance(after, RawMark):
            beside = f"before {after.mark.value}"
        advice = 'write one, such as code:550; operator words as text stand in "quotes"'
        raise FilterError(self._position(), f"a term is missing {beside}", advice)

    def _position(self) -> int:
        token = self._peek()
        return self._length if token is None else token.position

    def _peek(self) -> Token | None:
        return self._tokens[self._at] if self._at < len(self._tokens) else None


def _is(token: Token, mark: Mark) -> bool:
    return isinstance(token, RawMark) and token.mark is mark


def _check_any(parts: Sequence[_Placed]) -> None:
    """`code:503 OR 504` would find every letter with 504 somewhere in it."""
    bare = next((one for one in parts if one.bare), None)
    if bare is not None and not all(one.bare for one in parts):
        advice = 'write several values with commas, as in code:503,504; text beside OR in "quotes"'
        raise FilterError(bare.position, "text beside OR", advice)
    for first, second in combinations(_flat(parts, AnyOf), 2):
        if (values := _apart(first.term, second.term, negated=True)) is not None:
            advice = f"write -{values} to leave out both"
            raise FilterError(second.position, "every letter is not the one or not the other", advice)


def _check_all(parts: Sequence[_Placed]) -> None:
    for first, second in combinations(_flat(parts, AllOf), 2):
        if (values := _apart(first.term, second.term, negated=False)) is not None:
            raise FilterError(second.position, "no letter is both", f"write {values} for either")


def _flat(parts: Sequence[_Placed], kind: type[AnyOf] | type[AllOf]) -> list[_Placed]:
    return [_Placed(term, part.position) for part in parts for term in unpacked(part.term, kind)]


def _depth(terms: Sequence[Term]) -> int:
    """How many groups stand in each other."""
    return max((1 + _depth(one.terms) for one in terms if isinstance(one, AnyOf | AllOf)), default=0)


def _apart(first: Term, second: Term, *, negated: bool) -> str | None:
    """How to write two terms on one field whose values exclude each other; None where they do not."""
    if first.negated is not negated or second.negated is not negated:
        return None
    match first, second:
        case (Named(), Named()) if first.field is second.field:
            values: tuple[object, ...] = (*first.values, *second.values)
        case (Counted(), Counted()) if (
            first.field is second.field and first.comparison is second.comparison is Comparison.EQUAL
        ):
            values = (*first.values, *second.values)
        case _:
            return None
    if set(first.values) & set(second.values) or any(isinstance(one, Pattern) for one in values):
        return None
    return f"{first.field}:{','.join(plain(str(one)) for one in values)}"
