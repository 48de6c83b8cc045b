"""Where an index's letters come from, and how it then stands to the store."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from redrive.core.store import OwnIndex
from redrive.office.index.read import read_only


@dataclass(frozen=True, slots=True)
class Freshness:
    """How an answer stands to the store: complete up to `stale_s` ago.

    `behind`: more has happened than could be taken in so far. `problem`: why the store could not be asked.
    """

    stale_s: float = 0.0
    behind: bool = False
    problem: str | None = None


class IndexSource(Protocol):
    """The two relations somewhere, and what keeps them."""

    @property
    def freshness(self) -> Freshness:
        """How they stood to the store when they were last made ready."""
        ...

    async def ready(self, budget_s: float | None) -> str:
        """Catch up with the store, within a time or to the end; the address to read from."""
        ...

    async def mend(self, error: BaseException) -> bool:
        """Throw away what an error says is spoilt; whether asking again may help."""
        ...

    async def close(self) -> None:
        """Let go of what is held."""
        ...


class Own:
    """A store that is its own index: never behind, never written here."""

    freshness = Freshness()

    def __init__(self, index: OwnIndex) -> None:
        self._address = read_only(Path(index.path))

    async def ready(self, budget_s: float | None) -> str:
        return self._address

    async def mend(self, error: BaseException) -> bool:
        return False

    async def close(self) -> None:
        """Nothing is held."""
