"""Where a search goes on: after one letter of its order, and how far it has looked.

Opaque to whoever carries it, and stable under change: it names a place between letters, not a count.
"""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from enum import StrEnum

from redrive.core.errors import RedriveError

_LENGTH = 500
_INTEGER = 2**62


class LetterOrder(StrEnum):
    """Which letters come first."""

    OLDEST = "oldest"
    NEWEST = "newest"


class CursorError(RedriveError):
    """A cursor that this search did not give."""

    def __init__(self) -> None:
        super().__init__("the cursor cannot be read: pass one exactly as given, with the same order, or none")


@dataclass(frozen=True, slots=True)
class Cursor:
    """After the letter (died_at, id); `looked` letters were looked at before."""

    order: LetterOrder
    died_at: int
    id: str
    looked: int = 0

    @classmethod
    def start(cls, order: LetterOrder) -> Cursor:
        """Before the first letter of an order."""
        return cls(order, -1 if order is LetterOrder.OLDEST else _INTEGER, "")

    @classmethod
    def parse(cls, text: str, order: LetterOrder) -> Cursor:
        """A cursor that was given for this order, or CursorError."""
        try:
            if len(text) > _LENGTH:
                raise CursorError
            named, died_at, letter_id, looked = json.loads(base64.urlsafe_b64decode(text.encode("ascii")))
            read = cls(LetterOrder(named), int(died_at), str(letter_id), int(looked))
            read.id.encode()
        except (ValueError, TypeError, RecursionError, OverflowError):
            raise CursorError from None
        if read.order is not order or not 0 <= read.died_at <= _INTEGER or not 0 <= read.looked <= _INTEGER:
            raise CursorError
        return read

    def __str__(self) -> str:
        row = json.dumps([self.order, self.died_at, self.id, self.looked], separators=(",", ":"))
        return base64.urlsafe_b64encode(row.encode()).decode("ascii")
