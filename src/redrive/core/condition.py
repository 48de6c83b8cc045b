"""What a store says of itself: how durable it is, how full, and what an operator should fix.

Plain facts; the stores find them, `redrive status` and `redrive doctor` show them.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from redrive.core.errors import StoreError


class Durability(StrEnum):
    """What "accepted" means when the machine dies: on disk, within a stated window, in memory."""

    A = "A"
    B = "B"
    C = "C"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Description:
    """What a store says of itself, and which engine of which version it is; `url` never holds a secret.

    `lost`: its broker cannot be reached, `meaning` says why; `refused`: nor would it at another try.
    """

    url: str
    durability: Durability
    meaning: str
    engine: str = ""
    lost: bool = False
    refused: bool = False

    def demand(self) -> None:
        """StoreError where nothing can be worked on until a person has changed something."""
        if self.refused:
            raise StoreError(self.meaning)


@dataclass(frozen=True, slots=True)
class Capacity:
    """How full a store is. Bytes by state are estimates; None where the store cannot tell.

    `rejected_connections`: how many a server has refused for want of room since it started.
    """

    used_bytes: int
    limit_bytes: int | None = None
    waiting_bytes: int | None = None
    finished_bytes: int | None = None
    dead_bytes: int | None = None
    accepts: bool = True
    note: str = ""
    rejected_connections: int | None = None


class Grade(StrEnum):
    """What an examination found: right, worth a look, wrong, or not to be told from here."""

    RIGHT = "right"
    WARNING = "warning"
    WRONG = "wrong"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of `redrive doctor`: what was looked at, what was found, and how to fix it."""

    subject: str
    grade: Grade
    found: str
    fix: str = ""
