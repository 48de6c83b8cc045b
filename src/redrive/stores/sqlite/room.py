"""Whether there is room for new work, looked at in the writer's turn.

New messages are refused while the reserve does not stand, or while moving the log into the file could fill
the disk; what was accepted drains. Only in the turn, between transactions, can the log be shortened.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import apsw

from redrive.core.errors import StoreFull, StoreUnavailable
from redrive.stores.sqlite.reserve import Reserve

_PAGES_BACK = 1_024


class Room:
    """The room of one database, as its writer sees it."""

    def __init__(self, connection: apsw.Connection, path: Path) -> None:
        self._connection, self._path = connection, path
        self._reserve = Reserve(path)
        self._refuses = False

    @property
    def refuses(self) -> bool:
        """Whether new work was refused when that was last looked at."""
        return self._refuses

    def look(self, *, short: bool) -> None:
        """Look for room; `short`: a step has just found none."""
        self._reserve.look(self._shrink)
        # Without the reserve the log must stay short: moving a long one into the file needs room of its own.
        if short or not self._reserve.whole or self._reserve.tight(self._pages):
            self._shorten_log()
        self._refuses = not self._reserve.whole or self._reserve.tight(self._pages)

    def refusal(self) -> StoreUnavailable:
        """Why new work is refused."""
        problem = self._reserve.problem
        if problem is not None:
            return StoreUnavailable(
                f"{self._path}: its reserve of disk space cannot be made ({problem}); new work is refused, "
                "accepted work drains: fix that, it is tried again every second"
            )
        return StoreFull(
            f"{self._path}: the disk is nearly full; new work is refused, accepted work drains: "
            "free some space"
        )

    def give_back(self) -> None:
        """Free the reserve for what drains the store."""
        self._reserve.give_back()

    def _pages(self) -> tuple[int, int, int]:
        pragma = self._connection.pragma
        return pragma("page_count"), pragma("freelist_count"), pragma("page_size")

    def _shrink(self) -> None:
        """Give empty pages of the file back to the disk, so that the reserve can be made again."""
        self._shorten_log()
        with suppress(apsw.Error):
            self._connection.execute(f"pragma incremental_vacuum({_PAGES_BACK})").fetchall()
        self._shorten_log()

    def _shorten_log(self) -> None:
        with suppress(apsw.Error):
            self._connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
