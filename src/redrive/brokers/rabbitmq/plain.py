"""A field table of AMQP as JSON holds it, and back; what JSON has no word for is marked. Pure."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

_SURROGATES = re.compile(r"[\ud800-\udfff]")


def to_plain(value: Any) -> Any:
    """A field table as JSON holds it; what JSON has no word for is marked."""
    if isinstance(value, str):
        return value if _is_text(value) else {"$bytes": base64.b64encode(_as_bytes(value)).decode()}
    if isinstance(value, Mapping):
        return {_SURROGATES.sub("?", str(name)): to_plain(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [to_plain(inner) for inner in value]
    if isinstance(value, bytes | bytearray):
        return {"$bytes": base64.b64encode(value).decode()}
    if isinstance(value, datetime):
        return {"$time": value.timestamp()}
    if isinstance(value, Decimal):
        return {"$decimal": str(value)}
    return value


def from_plain(value: Any) -> Any:
    if isinstance(value, list):
        return [from_plain(inner) for inner in value]
    if not isinstance(value, dict):
        return value
    try:
        match value:
            case {"$bytes": str(packed)}:
                return base64.b64decode(packed, validate=True)
            case {"$time": float() | int() as stamp}:
                return datetime.fromtimestamp(stamp, UTC)
            case {"$decimal": str(written)}:
                return Decimal(written)
    except (ValueError, ArithmeticError, OSError):
        return value
    return {name: from_plain(inner) for name, inner in value.items()}


def _is_text(value: str) -> bool:
    """Whether it was UTF-8 on the wire."""
    return value.isascii() or _SURROGATES.search(value) is None


def _as_bytes(value: str) -> bytes:
    return value.encode("utf-8", "surrogateescape")


def as_text(value: Any) -> Any:
    """A property's text, whose odd bytes stand as surrogates."""
    return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else value
