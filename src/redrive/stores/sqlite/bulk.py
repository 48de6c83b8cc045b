"""Many values by one statement: as an array it reads, as JSON that is kept, as rows that it inserts.

The driver keeps its prepared statements in a ring and moves one forward each time it has run, so a statement
that runs hundreds of times in a row (`executemany`) drives all others out, and each is then prepared again.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Sequence
from functools import cache
from itertools import chain
from typing import Any

import apsw
import msgspec

_ROWS = 50
_VALUES = re.compile(r"values (\([^()]*\))")

_decode_numbers = msgspec.json.Decoder(list[int]).decode
_encode = msgspec.json.Encoder().encode


def number_array(numbers: Sequence[int]) -> apsw.CArrayBinding:
    """Many numbers, at least one, as one argument of a statement, which reads them in place."""
    return apsw.carray(array("q", numbers))


def encode_list(values: Sequence[int] | Sequence[str] | Sequence[tuple[str, str]]) -> str:
    """Many values as one argument of a statement, and as a lease keeps them: JSON."""
    return _encode(values).decode()


def decode_numbers(text: str | None) -> list[int]:
    """Numbers as `encode_list` wrote them; none where nothing was written."""
    return [] if text is None else _decode_numbers(text)


def insert_rows(db: apsw.Connection, statement: str, rows: Sequence[tuple[Any, ...]]) -> None:
    """Run a statement that inserts one row, for many of them; its parameters have no numbers."""
    whole = len(rows) - len(rows) % _ROWS
    for first in range(0, whole, _ROWS):
        db.execute(_widened(statement), tuple(chain.from_iterable(rows[first : first + _ROWS])))
    db.executemany(statement, rows[whole:])


@cache
def _widened(statement: str) -> str:
    """The same statement for `_ROWS` rows."""
    return _VALUES.sub(lambda row: "values " + ", ".join([row[1]] * _ROWS), statement, count=1)
