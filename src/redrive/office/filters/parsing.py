"""From raw terms to a Filter: which fields there are, and what may stand in each.

Every value is checked here, so that what compiles needs no further doubt. An error names the place.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from redrive.core.failure import Kind
from redrive.office.filters.scanning import FilterError, RawTerm, RawValue, scan
from redrive.office.filters.terms import (
    AGE,
    FIELDS,
    PAYLOAD,
    REASON,
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
)

TERMS = 50
_VALUES = 100
_DEPTH = 16
_NUMBER = re.compile(r"\d{1,9}", re.ASCII)
_DURATION = re.compile(r"(\d{1,7})([smhd])", re.ASCII)
_DECIMAL = re.compile(r"-?\d{1,15}(\.\d{1,15})?", re.ASCII)
_SEGMENT = re.compile(r"[^\"\\\[\]$]{1,100}")
_SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def parse(text: str) -> Filter:
    """The filter that the text says, or FilterError with the place that cannot be read."""
    raw = scan(text)
    if len(raw) > TERMS:
        raise FilterError(raw[TERMS].position, f"more than {TERMS} terms", "make the filter shorter")
    return Filter(tuple(map(_term, raw)))


def is_number(text: str) -> bool:
    """Whether a value of a payload can be compared as a number."""
    return _DECIMAL.fullmatch(text) is not None


def _term(raw: RawTerm) -> Term:
    if raw.name is None:
        return _text(raw)
    if len(raw.values) > _VALUES:
        raise FilterError(raw.values[_VALUES].position, f"more than {_VALUES} values", "split it in several")
    if raw.name in _READERS:
        return _READERS[raw.name](raw, raw.name)
    if raw.name.startswith(f"{PAYLOAD}."):
        return _payload(raw, raw.name)
    known = ", ".join(FIELDS)
    raise FilterError(
        raw.position, f"there is no field {raw.name!r}", f'use one of {known}; search for text in "quotes"'
    )


def _text(raw: RawTerm) -> Term:
    (value,) = raw.values
    if not value.text.strip():
        raise FilterError(value.position, "no text to search for", "write a word between the quotes")
    return Text(value.text, raw.negated)


def _named(raw: RawTerm, name: str) -> Term:
    _refuse_sign(raw)
    field = NameField(name)
    for value in raw.values:
        if field is NameField.KIND and value.text not in list(Kind):
            raise FilterError(value.position, f"{value.text!r} is no kind", f"use one of {', '.join(Kind)}")
    return Named(field, tuple(value.text for value in raw.values), raw.negated)


def _reasoned(raw: RawTerm, _: str) -> Term:
    _refuse_sign(raw)
    for value in raw.values:
        if not value.text.strip():
            raise FilterError(value.position, "an empty reason", "write a word of it; every letter has one")
    return Reasoned(tuple(value.text for value in raw.values), raw.negated)


def _counted(raw: RawTerm, name: str) -> Term:
    comparison = _comparison(raw)
    numbers = tuple(_number(value) for value in raw.values)
    return Counted(NumberField(name), comparison, numbers, raw.negated)


def _number(value: RawValue) -> int:
    if not _NUMBER.fullmatch(value.text):
        raise FilterError(value.position, f"{value.text!r} is no whole number", "write digits, such as 3")
    return int(value.text)


def _aged(raw: RawTerm, name: str) -> Term:
    value = _single_beyond(raw, f"write {name}:>2h or {name}:<30m")
    found = _DURATION.fullmatch(value.text)
    if found is None:
        raise FilterError(value.position, f"{value.text!r} is no duration", "write 90s, 15m, 2h or 7d")
    return Aged(_comparison(raw), int(found[1]) * _SECONDS[found[2]], raw.negated)


def _dated(raw: RawTerm, name: str) -> Term:
    value = _single_beyond(raw, f"write {name}:>2026-01-31 or {name}:<2026-01-31T08:00Z")
    return Dated(MomentField(name), _comparison(raw), _moment(value), raw.negated)


def _moment(value: RawValue) -> int:
    try:
        read = datetime.fromisoformat(value.text)
        moment = read if read.tzinfo else read.replace(tzinfo=UTC)
        at = (moment - _EPOCH) // timedelta(milliseconds=1)
        if at < 0 or moment.astimezone(UTC).year > 9998:
            raise ValueError
    except (ValueError, OverflowError):
        advice = "write a date or time such as 2026-01-31 or 2026-01-31T08:00:00Z"
        raise FilterError(value.position, f"{value.text!r} is no instant", advice) from None
    return at


def _payload(raw: RawTerm, name: str) -> Term:
    path = tuple(name.split(".")[1:])
    if len(path) > _DEPTH or not all(_SEGMENT.fullmatch(segment) for segment in path):
        advice = f"write {PAYLOAD}.order_id or {PAYLOAD}.items.0.sku, at most {_DEPTH} deep"
        raise FilterError(raw.position, f"{name!r} is no path", advice)
    comparison = _comparison(raw)
    for value in raw.values:
        if comparison is not Comparison.EQUAL and not is_number(value.text):
            problem = f"{value.text!r} is no number to compare with"
            raise FilterError(value.position, problem, f"write {name}:{comparison}100, or no sign")
    values = tuple(PayloadValue(value.text, value.quoted and not raw.sign) for value in raw.values)
    return InPayload(path, comparison, values, raw.negated)


def _bare_payload(raw: RawTerm, _: str) -> Term:
    advice = f'write {PAYLOAD}.order_id:7, or search the whole of it for "text"'
    raise FilterError(raw.position, f"{PAYLOAD} needs a path", advice)


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


_READERS: dict[str, Callable[[RawTerm, str], Term]] = {
    **dict.fromkeys(NameField, _named),
    **dict.fromkeys(NumberField, _counted),
    **dict.fromkeys(MomentField, _dated),
    REASON: _reasoned,
    AGE: _aged,
    PAYLOAD: _bare_payload,
}
