"""A message's properties as bytes: read from what a broker hands over, written for what is published.

Whoever publishes may write anything into them: what is no UTF-8, or no time, is read as far as it goes, and
never stands in the way of the message. What was read is written as it was. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from functools import lru_cache
from struct import Struct, error
from typing import Any

from pamqp import commands
from pamqp.encode import encode_table_value

Properties = commands.Basic.Properties

UNREADABLE = "x-unreadable"
"""The header that keeps properties which nobody can read."""

_HEADER = Struct(">HHQH")
_BASIC = 60
_OCTET, _LONG, _TIME, _DECIMAL = Struct(">B"), Struct(">I"), Struct(">Q"), Struct(">Bi")
_INT, _LONG_INT, _DOUBLE = Struct(">ci"), Struct(">cq"), Struct(">cd")
_SHORT_BYTES = 255
_MILLISECONDS = 0xFFFFFFFF
_INT_MAX = 2**31
_FIXED = {
    ord(kind): Struct(f">{code}")
    for kind, code in zip("tbBsuIilLfd", ("?", "b", "B", "h", "H", "i", "I", "q", "q", "f", "d"), strict=True)
}

_Reading = Callable[[bytes, int], tuple[Any, int]]


def read_content_header(payload: bytes) -> tuple[Properties, int]:
    """A message's properties, and the size of its body."""
    _, _, size, flags = _HEADER.unpack_from(payload)
    properties, at = Properties(), _HEADER.size
    try:
        for name, read in _layout(flags):
            value, at = read(payload, at)
            setattr(properties, name, value)
    except (error, IndexError, RecursionError):
        return Properties(headers={UNREADABLE: bytearray(payload)}), size
    return properties, size


def write_content_header(properties: Properties, size: int) -> bytes:
    """The same the other way; ValueError or TypeError for what AMQP has no place for."""
    flags, parts = 0, []
    for flag, name, _, write in _FIELDS:
        value = getattr(properties, name)
        if value is not None and value != "":
            flags |= flag
            try:
                parts.append(write(value))
            except (error, RecursionError) as problem:
                raise ValueError(f"{name}: {problem}") from problem
    return _HEADER.pack(_BASIC, 0, size, flags) + b"".join(parts)


def read_short_text(payload: bytes, at: int) -> tuple[str, int]:
    """A text, also one that is no UTF-8, and where it ends; its odd bytes stand as surrogates."""
    end = at + 1 + payload[at]
    return payload[at + 1 : end].decode("utf-8", "surrogateescape"), end


def _read_octet(payload: bytes, at: int) -> tuple[int, int]:
    return payload[at], at + 1


def _read_long_text(payload: bytes, at: int) -> tuple[str | bytes, int]:
    start = at + 4
    end = start + _LONG.unpack_from(payload, at)[0]
    raw = payload[start:end]
    try:
        return raw.decode(), end
    except UnicodeDecodeError:
        return raw, end


def _read_bytes(payload: bytes, at: int) -> tuple[bytearray, int]:
    end = at + 4 + _LONG.unpack_from(payload, at)[0]
    return bytearray(payload[at + 4 : end]), end


def _read_time(payload: bytes, at: int) -> tuple[datetime | int, int]:
    """A time, in milliseconds where some write it so; the number where it is none."""
    stamp: int = _TIME.unpack_from(payload, at)[0]
    try:
        return datetime.fromtimestamp(stamp / 1000 if stamp > _MILLISECONDS else stamp, UTC), at + 8
    except (ValueError, OverflowError, OSError):
        return stamp, at + 8


def _read_decimal(payload: bytes, at: int) -> tuple[Decimal, int]:
    scale, mantissa = _DECIMAL.unpack_from(payload, at)
    return Decimal(mantissa).scaleb(-scale), at + _DECIMAL.size


def _read_table(payload: bytes, at: int) -> tuple[dict[str, Any], int]:
    end = at + 4 + _LONG.unpack_from(payload, at)[0]
    at, found = at + 4, {}
    while at < end:
        name, at = read_short_text(payload, at)
        found[name], at = _read_value(payload, at)
    return found, end


def _read_array(payload: bytes, at: int) -> tuple[list[Any], int]:
    end = at + 4 + _LONG.unpack_from(payload, at)[0]
    at, found = at + 4, []
    while at < end:
        value, at = _read_value(payload, at)
        found.append(value)
    return found, end


def _read_value(payload: bytes, at: int) -> tuple[Any, int]:
    kind, at = payload[at], at + 1
    fixed = _FIXED.get(kind)
    if fixed is not None:
        return fixed.unpack_from(payload, at)[0], at + fixed.size
    read = _READINGS.get(kind)
    return (None, at) if read is None else read(payload, at)


_READINGS: dict[int, _Reading] = {
    ord("S"): _read_long_text,
    ord("x"): _read_bytes,
    ord("T"): _read_time,
    ord("D"): _read_decimal,
    ord("F"): _read_table,
    ord("A"): _read_array,
}


def short_text(value: str) -> bytes:
    """A text of at most 255 bytes."""
    raw = value.encode("utf-8", "surrogateescape")
    if len(raw) > _SHORT_BYTES:
        raise ValueError(f"{value[:20]}… has more than {_SHORT_BYTES} bytes")
    return _OCTET.pack(len(raw)) + raw


def _time(value: datetime | int) -> bytes:
    return _TIME.pack(value if isinstance(value, int) else int(value.timestamp()))


def _table(table: Mapping[str, Any]) -> bytes:
    return _sized(b"".join([short_text(name) + _value(value) for name, value in table.items()]))


def _sized(raw: bytes | bytearray) -> bytes:
    return _LONG.pack(len(raw)) + raw


def _value(value: Any) -> bytes:
    match value:
        case str():
            return b"S" + _sized(value.encode("utf-8", "surrogateescape"))
        case bool():
            return b"t\x01" if value else b"t\x00"
        case int() if -_INT_MAX <= value < _INT_MAX:
            return _INT.pack(b"I", value)
        case int():
            return _LONG_INT.pack(b"l", value)
        case float():
            return _DOUBLE.pack(b"d", value)
        case bytes():
            return b"S" + _sized(value)
        case Mapping():
            return b"F" + _table(value)
        case list() | tuple():
            return b"A" + _sized(b"".join(map(_value, value)))
        case datetime():
            return b"T" + _time(value)
    return encode_table_value(value)


_FIELDS: tuple[tuple[int, str, _Reading, Callable[[Any], bytes]], ...] = (
    (0x8000, "content_type", read_short_text, short_text),
    (0x4000, "content_encoding", read_short_text, short_text),
    (0x2000, "headers", _read_table, _table),
    (0x1000, "delivery_mode", _read_octet, _OCTET.pack),
    (0x0800, "priority", _read_octet, _OCTET.pack),
    (0x0400, "correlation_id", read_short_text, short_text),
    (0x0200, "reply_to", read_short_text, short_text),
    (0x0100, "expiration", read_short_text, short_text),
    (0x0080, "message_id", read_short_text, short_text),
    (0x0040, "timestamp", _read_time, _time),
    (0x0020, "message_type", read_short_text, short_text),
    (0x0010, "user_id", read_short_text, short_text),
    (0x0008, "app_id", read_short_text, short_text),
    (0x0004, "cluster_id", read_short_text, short_text),
)


@lru_cache(maxsize=256)
def _layout(flags: int) -> tuple[tuple[str, _Reading], ...]:
    return tuple((name, read) for flag, name, read, _ in _FIELDS if flags & flag)
