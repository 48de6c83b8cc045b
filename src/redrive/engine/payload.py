"""Payloads between Python and bytes: JSON by msgspec, checked on the way in and on the way out.

A pydantic model reads and writes itself; it is known by its methods, so that pydantic stays the user's
own dependency.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any, Protocol, cast

import msgspec

from redrive.core.errors import InvalidMessage

Decode = Callable[[bytes], Any]

_NULL = re.compile(b"null")
"""Looked for with every message: a pattern finds it sooner than `in` does."""


class Misfit(Exception):
    """A body that is readable but does not fit the handler's type."""


class _Model(Protocol):
    """What Redrive uses of a pydantic model."""

    def model_dump_json(self) -> str: ...

    @classmethod
    def model_validate_json(cls, data: bytes) -> Any: ...


def encode(payload: object) -> bytes:
    """The payload as JSON, or InvalidMessage saying why it cannot be."""
    try:
        if hasattr(payload, "model_dump_json"):
            return cast("_Model", payload).model_dump_json().encode()
        body = msgspec.json.encode(payload)
        if _NULL.search(body) is not None:
            _refuse_lost_numbers(payload)
        return body
    except RecursionError:
        raise InvalidMessage("the payload is nested too deeply to be written as JSON") from None
    except (TypeError, ValueError, OverflowError) as error:
        why = str(error)[:200].encode("utf-8", "replace").decode()
        raise InvalidMessage(f"the payload cannot be written as JSON: {why}") from error


def _refuse_lost_numbers(payload: object) -> None:
    """A number that is not finite would be written as null: the handler would get another payload."""
    left = [payload]
    while left:
        value = left.pop()
        match value:
            case None | str() | int() | msgspec.Raw():
                continue
            case float():
                if not math.isfinite(value):
                    raise ValueError("NaN and infinity are not numbers there, send None or a text instead")
            case dict():
                left.extend(value.values())
            case list() | tuple() | set() | frozenset():
                left.extend(value)
            case _:
                built = msgspec.to_builtins(value)
                if type(built) is not type(value):
                    left.append(built)


def decoder(annotation: object) -> Decode:
    """How to read a body for a handler whose payload parameter has this annotation."""
    if isinstance(annotation, type) and hasattr(annotation, "model_validate_json"):
        return _model_decoder(cast("type[_Model]", annotation))
    return msgspec.json.Decoder(Any if annotation is None else annotation).decode


def unreadable(error: Exception) -> str | None:
    """Why a body could not be decoded, or None when the error is not about decoding."""
    if isinstance(error, msgspec.ValidationError | Misfit):
        return f"the payload does not fit the handler's type: {error}"
    if isinstance(error, msgspec.DecodeError | UnicodeDecodeError | RecursionError):
        return f"the body is not readable JSON: {error}"
    return None


def _model_decoder(model: type[_Model]) -> Decode:
    def decode(body: bytes) -> Any:
        try:
            return model.model_validate_json(body)
        except ValueError as error:
            raise Misfit(str(error)) from error

    return decode
