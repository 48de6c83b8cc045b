"""From text to a Filter: which fields there are, and what may stand in each.

Every value is checked here, so that what compiles needs no further doubt. An error names the place.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from redrive.core.failure import Kind
from redrive.office.filters.grammar import arrange
from redrive.office.filters.mistakes import FilterError
from redrive.office.filters.moments import is_relative, read_day, read_duration, read_instant
from redrive.office.filters.names import AGE, FIELDS, PAYLOAD, REASON, field_name, nearest_field
from redrive.office.filters.terms import (
    Aged,
    Comparison,
    Counted,
    Dated,
    Filter,
    InPayload,
    MomentField,
    Named,
    NameField,
    NumberField,
    PayloadValue,
    Reasoned,
    Term,
    Text,
    all_of,
)
from redrive.office.filters.tokens import RawTerm, RawValue, scan
from redrive.office.filters.values import Misspelled, Pattern, bare_name, check_bare

_VALUES = 100
_DEPTH = 16
_NUMBER = re.compile(r"\d{1,9}", re.ASCII)
_DECIMAL = re.compile(r"-?\d{1,15}(\.\d{1,15})?", re.ASCII)
_RANGE = re.compile(r"(.+?)\.\.(.+)")
_SEGMENT = re.compile(r"[^\"\\\[\]$]{1,100}")
_MAY_BE_EMPTY = frozenset((NameField.CODE, NameField.KIND, NameField.FINGERPRINT))


def parse(text: str, now: int | None = None) -> Filter:
    """The filter that the text says, or FilterError with the place that cannot be read.

    `now`: what today, yesterday and a time of day are counted from. Without one they are refused; what `str`
    writes has none of them.
    """
    return arrange(scan(text), len(text), partial(_term, now))


def is_number(text: str) -> bool:
    """Whether a value of a payload can be compared as a number."""
    return _DECIMAL.fullmatch(text) is not None


def _term(now: int | None, raw: RawTerm) -> Term:
    if raw.name is None:
        return _text(raw)
    if len(raw.values) > _VALUES:
        raise FilterError(raw.values[_VALUES].position, f"more than {_VALUES} values", "split it in several")
    name = field_name(raw.name)
    if name is None:
        raise _unknown(raw, raw.name)
    if name in tuple(MomentField):
        return _dated(raw, MomentField(name), now)
    if name.startswith(f"{PAYLOAD}."):
        return _payload(raw, name)
    return _READERS[name](raw, name)


def _unknown(raw: RawTerm, name: str) -> FilterError:
    near = nearest_field(name)
    meant = "" if near is None else f"did you mean {near}? "
    advice = f'{meant}use one of {", ".join(FIELDS)}; search for text in "quotes"'
    return FilterError(raw.position, f"there is no field {name[:60]!r}", advice)


def _text(raw: RawTerm) -> Term:
    (value,) = raw.values
    if not value.text.strip():
        raise FilterError(value.position, "no text to search for", "write a word between the quotes")
    return Text(value.text)


def _named(raw: RawTerm, name: str) -> Term:
    _refuse_sign(raw)
    return Named(NameField(name), tuple(_name(NameField(name), value) for value in raw.values))


def _name(field: NameField, value: RawValue) -> str | Pattern:
    if not value.text and field not in _MAY_BE_EMPTY:
        raise FilterError(value.position, f"{field} is empty", "write one; every letter has one")
    if field is NameField.KIND:
        return _kind(value)
    return value.text if value.quoted else _spelled(value, partial(bare_name, field))


def _kind(value: RawValue) -> str:
    kind = value.text.lower()
    if kind and kind not in list(Kind):
        raise FilterError(value.position, f"{value.text!r} is not a kind", f"use one of {', '.join(Kind)}")
    return kind


def _reasoned(raw: RawTerm, _: str) -> Term:
    _refuse_sign(raw)
    for value in raw.values:
        if not value.text.strip():
            raise FilterError(value.position, "reason is empty", "write a word of it; every letter has one")
        _check_part(value, "a part of a reason is enough: write it without")
    return Reasoned(tuple(value.text for value in raw.values))


def _counted(raw: RawTerm, name: str) -> Term:
    if (ends := _range(raw)) is not None:
        return _between(raw, ends, _counted, name)
    comparison = _comparison(raw)
    return Counted(NumberField(name), comparison, tuple(_number(value) for value in raw.values))


def _number(value: RawValue) -> int:
    if not _NUMBER.fullmatch(value.text):
        raise FilterError(value.position, f"{value.text!r} is not a whole number", "write digits, such as 3")
    return int(value.text)


def _aged(raw: RawTerm, name: str) -> Term:
    if (ends := _range(raw)) is not None:
        return _between(raw, ends, _aged, name)
    value = _single_beyond(raw, f"write {name}:>2h, {name}:<30m or {name}:1h..2d")
    duration_s = read_duration(value.text)
    if duration_s is None:
        problem = (
            "an age is not negative" if value.text.startswith("-") else f"{value.text!r} is not a duration"
        )
        raise FilterError(value.position, problem, "write 90s, 15m, 2h30m, 7d or 1w")
    return Aged(_comparison(raw), duration_s)


def _dated(raw: RawTerm, field: MomentField, now: int | None) -> Term:
    ends = _range(raw)
    if ends is None and raw.sign:
        value = _single_beyond(raw, "")
        return Dated(field, _comparison(raw), _instant(field, value, now))
    first, last = ends or (raw.values[0], raw.values[0])
    begin, end = _instant(field, first, now), _instant(field, last, now)
    day = read_day(last.text, now or 0)
    if (ends is None and day is None) or len(raw.values) > 1:
        advice = f"write {field}:>2026-01-31T08:00Z, {field}:2026-01-31 for a whole day, or a range A..B"
        raise FilterError(raw.values[0].position, f"{field} needs a > or <", advice)
    if begin > end:
        raise FilterError(first.position, "the range ends before it begins", "write the earlier one first")
    until = (Comparison.AT_MOST, end) if day is None else (Comparison.LESS, day[1])
    return all_of([Dated(field, Comparison.AT_LEAST, begin), Dated(field, *until)])


def _instant(field: MomentField, value: RawValue, now: int | None) -> int:
    if now is None and is_relative(value.text):
        raise FilterError(value.position, f"{value.text!r} depends on the day", "write it with its date")
    at = read_instant(value.text, now or 0)
    if at is not None:
        return at
    if field is MomentField.DIED and read_duration(value.text) is not None:
        advice = f"write age:>{value.text} for longer ago, or age:<{value.text} for since then"
        raise FilterError(value.position, f"{value.text!r} is a duration", advice)
    advice = "write 2026-01-31, 2026-01-31T08:00Z, 03:00, today or yesterday, in UTC"
    raise FilterError(value.position, f"{value.text!r} is not a valid time", advice)


def _payload(raw: RawTerm, name: str) -> Term:
    path = tuple(name.split(".")[1:])
    if len(path) > _DEPTH or not all(_SEGMENT.fullmatch(segment) for segment in path):
        advice = f"write {PAYLOAD}.order_id or {PAYLOAD}.items.0.sku, at most {_DEPTH} deep"
        raise FilterError(raw.position, f"{name!r} is not a path", advice)
    if (ends := _range(raw)) is not None and is_number(ends[0].text) and is_number(ends[1].text):
        return _between(raw, ends, _payload, name)
    comparison = _comparison(raw)
    for value in raw.values:
        if comparison is not Comparison.EQUAL and not is_number(value.text):
            problem = f"{value.text!r} is not a number to compare with"
            raise FilterError(value.position, problem, f"write {name}:{comparison}100, or no sign")
        if not is_number(value.text):
            _check_part(value, "values of a payload are equal or not; to find a part, search for text")
    values = tuple(PayloadValue(value.text, value.quoted and not raw.sign) for value in raw.values)
    return InPayload(path, comparison, values)


def _bare_payload(raw: RawTerm, _: str) -> Term:
    advice = f'write {PAYLOAD}.order_id:7, or search the whole of it for "text"'
    raise FilterError(raw.position, f"{PAYLOAD} needs a path", advice)


def _range(raw: RawTerm) -> tuple[RawValue, RawValue] | None:
    """The two ends of `a..b`; None where there is one value, or several."""
    value = raw.values[0]
    found = None if value.quoted or raw.sign or len(raw.values) > 1 else _RANGE.fullmatch(value.text)
    if found is None:
        return None
    first, last = (RawValue(found[end], value.position + found.start(end)) for end in (1, 2))
    return first, last


def _between(
    raw: RawTerm, ends: tuple[RawValue, RawValue], read: Callable[[RawTerm, str], Term], name: str
) -> Term:
    """Both ends included."""
    first = read(replace(raw, sign=Comparison.AT_LEAST.value, values=ends[:1]), name)
    last = read(replace(raw, sign=Comparison.AT_MOST.value, values=ends[1:]), name)
    if _size(first) > _size(last):
        raise FilterError(ends[0].position, "the range ends before it begins", "write the smaller one first")
    return all_of([first, last])


def _size(term: Term) -> float:
    match term:
        case Counted():
            return term.values[0]
        case Aged():
            return term.duration_s
        case InPayload():
            return float(term.values[0].text)
    return 0


def _comparison(raw: RawTerm) -> Comparison:
    if raw.sign and len(raw.values) > 1:
        problem = f"several values after {raw.sign}"
        raise FilterError(raw.values[1].position, problem, "compare with one, or list them without a sign")
    return Comparison(raw.sign) if raw.sign else Comparison.EQUAL


def _single_beyond(raw: RawTerm, advice: str) -> RawValue:
    if not raw.sign:
        raise FilterError(raw.values[0].position, f"{raw.name} needs a > or <", advice)
    _comparison(raw)
    return raw.values[0]


def _refuse_sign(raw: RawTerm) -> None:
    if raw.sign:
        advice = f"write {raw.name}:value, or quote a value that begins with {raw.sign}"
        raise FilterError(raw.values[0].position, f"{raw.name} cannot be compared by {raw.sign}", advice)


def _spelled(value: RawValue, read: Callable[[str], str | Pattern]) -> str | Pattern:
    try:
        return read(value.text)
    except Misspelled as wrong:
        raise FilterError(value.position, wrong.problem, wrong.advice) from None


def _check_part(value: RawValue, advice: str) -> None:
    """A bare value that is compared as a whole, or looked for as a part: no operators, no wildcards."""
    if value.quoted:
        return
    try:
        check_bare(value.text)
    except Misspelled as wrong:
        raise FilterError(value.position, wrong.problem, wrong.advice) from None
    if "*" in value.text or value.text.startswith("%") or value.text.endswith("%"):
        raise FilterError(value.position, f"{value.text!r} has a wildcard", f"{advice}, or quote it")


_READERS: dict[str, Callable[[RawTerm, str], Term]] = {
    **dict.fromkeys(NameField, _named),
    **dict.fromkeys(NumberField, _counted),
    REASON: _reasoned,
    AGE: _aged,
    PAYLOAD: _bare_payload,
}
