"""Letters for other programs: JSON lines with everything that is known of each, or CSV with one row a letter.

Rows are made page by page, so that memory does not grow with the letters. In CSV no cell begins like a
formula: a spreadsheet would run what a stranger wrote. An export is for reading; what is to come
back is an archive.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable
from enum import StrEnum
from typing import Any

import msgspec

from redrive.core.letters import DeadLetter
from redrive.core.redaction import printable
from redrive.office.documents.letters import LetterDocument, letter_document
from redrive.office.masking import Mask

COLUMNS = (
    "jobId",
    "outboxId",
    "companyId",
    "queue",
    "reason",
    "failedAttempts",
    "lastFailureReason",
    "lastFailureCode",
    "lastFailureTimestamp",
    "enqueuedAt",
    "movedToDLQAt",
    "firstDiedAt",
    "ttl",
    "generation",
    "fingerprint",
    "redriven",
    "originalData",
)
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


class Format(StrEnum):
    """How letters are written."""

    JSONL = "jsonl"
    CSV = "csv"


class Export:
    """Turns letters into bytes, as a mask shows them."""

    def __init__(self, form: Format, mask: Mask, ttl_ms: int | None) -> None:
        self._form = form
        self._mask = mask
        self._ttl_ms = ttl_ms

    def head(self) -> bytes:
        """What stands before the first letter."""
        return _csv([COLUMNS]) if self._form is Format.CSV else b""

    def rows(self, letters: Iterable[DeadLetter]) -> bytes:
        """The letters, one a line."""
        documents = [letter_document(letter, self._mask, self._ttl_ms) for letter in letters]
        if self._form is Format.CSV:
            return _csv(map(_cells, documents))
        plain = map(msgspec.to_builtins, documents)
        lines = (json.dumps(document, separators=(",", ":")) + "\n" for document in plain)
        return "".join(lines).encode("ascii")


def _csv(rows: Iterable[Iterable[object]]) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\r\n").writerows(rows)
    return text.getvalue().encode("utf-8")


def _cells(document: LetterDocument) -> list[object]:
    row: dict[str, Any] = msgspec.to_builtins(document)
    row |= {"redriven": len(document.redrives), "originalData": json.dumps(document.original_data)}
    return [_cell(row[column]) for column in COLUMNS]


def _cell(value: object) -> object:
    if not isinstance(value, str):
        return value
    text = printable(value)
    return f"'{text}" if text.startswith(_FORMULA) else text
