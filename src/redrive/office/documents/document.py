"""What all documents have in common: how names and payloads are written."""

from __future__ import annotations

import base64
import json
import math
import re
from typing import Any

import msgspec

_HALVES = re.compile(rb"\\u[dD][89a-fA-F]")


class Document(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """JSON in camelCase."""


def payload(body: bytes) -> Any:
    """The body as JSON where it is JSON; otherwise its bytes in base64 under one key."""
    try:
        document = json.loads(body, parse_constant=_float, parse_float=_float)
        if _HALVES.search(body):
            msgspec.json.encode(document)  # UnicodeEncodeError where half a character stands alone
        return document
    except (ValueError, RecursionError):
        return {"base64": base64.b64encode(body).decode("ascii")}


def whole_payload(body: bytes, shared: bytes | None) -> Any:
    """The payload on top of what it shares with its siblings, where both are JSON objects."""
    own = payload(body)
    common = None if shared is None else payload(shared)
    if isinstance(own, dict) and isinstance(common, dict) and {"base64"} not in (own.keys(), common.keys()):
        return {**common, **own}
    return own


def _float(text: str) -> float:
    """A number that JSON can write again: a body with NaN, or with one that is too large, is not JSON."""
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} is not a number of JSON")
    return number
