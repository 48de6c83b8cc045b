"""Payloads between Python and bytes: JSON by msgspec, checked on the way in and on the way out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from redrive.core.errors import InvalidMessage

Decode = Callable[[bytes], Any]


def encode(payload: object) -> bytes:
    """The payload as JSON, or InvalidMessage saying why it cannot be."""
    try:
        return msgspec.json.encode(payload)
    except RecursionError:
        raise InvalidMessage("the payload is nested too deeply to be written as JSON") from None
    except (TypeError, ValueError, OverflowError) as error:
        why = str(error)[:200].encode("utf-8", "replace").decode()
        raise InvalidMessage(f"the payload cannot be written as JSON: {why}") from error


def decoder(annotation: object) -> Decode:
    """How to read a body for a handler whose payload parameter has this annotation."""
    return msgspec.json.Decoder(Any if annotation is None else annotation).decode


def unreadable(error: Exception) -> str | None:
    """Why a body could not be decoded, or None when the error is not about decoding."""
    if isinstance(error, msgspec.ValidationError):
        return f"the payload does not fit the handler's type: {error}"
    if isinstance(error, msgspec.DecodeError | UnicodeDecodeError | RecursionError):
        return f"the body is not readable JSON: {error}"
    return None
