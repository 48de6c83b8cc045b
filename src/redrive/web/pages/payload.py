"""A payload for people to read: indented where that stays readable, on a page its beginning.

Everything here takes time with a payload of a megabyte, and belongs into a thread.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from redrive.web.limits import is_deep

_SHOWN: Final = 200_000
_TIMES: Final = 4


@dataclass(frozen=True, slots=True)
class PayloadText:
    """What a page shows of a payload, and how many characters it leaves out."""

    text: str
    left_out: int


def pretty(document: Any) -> str:
    """A payload whole; in one line where indenting would make it many times as long."""
    if isinstance(document, str):
        return document
    text = json.dumps(document, ensure_ascii=False)
    if is_deep(document):
        return text
    indented = msgspec.json.format(text, indent=2)
    return indented if len(indented) <= _TIMES * len(text) + _SHOWN else text


def beginning(document: Any) -> PayloadText:
    """As much of a payload as a page shows."""
    text = pretty(document)
    return PayloadText(text[:_SHOWN], max(0, len(text) - _SHOWN))
