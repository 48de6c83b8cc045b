"""What is kept beside messages: versioned documents, and rows that are only ever added."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Document = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Record:
    """A stored document with the version that the next `put` must expect."""

    kind: str
    id: str
    version: int
    document: Document


@dataclass(frozen=True, slots=True)
class JournalRow:
    """One row of a journal; positions count from 1 without gaps."""

    position: int
    at: int
    document: Document
