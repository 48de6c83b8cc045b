"""Room kept aside so that settling goes on when the disk is full.

A file of 16 MiB stands beside the database. When a claim or settle finds no room, half of the file is given
up and the call repeated, and so on while anything of it is left: what a call does not need is not free for
other programs to take. Until the file is whole again, new messages are refused, and so they are while the
disk has less room than the log would need to be moved into the file: after that no reserve could help.
`Room` looks for both in the writer's turn: only there, between transactions, can the log be shortened.
Known weakness: another program may take the freed room first, and in the end all of it.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import apsw

from redrive.core.errors import StoreFull, StoreUnavailable
from redrive.machine.private import open_beside

_SIZE = 16 * 1024 * 1024
_MARGIN = 4 * 1024 * 1024
_PLENTY = 1024 * 1024 * 1024
_PIECE = 1024 * 1024
_LOOK_S = 1.0
_PAGES_BACK = 1_024
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class Reserve:
    """The reserve of one database, as this process knows it."""

    def __init__(self, path: Path) -> None:
        self._path = path.with_name(path.name + "-reserve")
        self._database = path
        self._folder = str(path.parent)
        self._whole = False
        self._problem: str | None = None
        self._looked = float("-inf")

    @property
    def whole(self) -> bool:
        """Whether the reserve stood when it was last looked at."""
        return self._whole

    @property
    def problem(self) -> str | None:
        """What keeps it from being made, where that is not the want of room."""
        return self._problem

    def tight(self, pages: Callable[[], tuple[int, int, int]]) -> bool:
        """Whether the log, moved into the file, could fill the disk.

        `pages` answers with how many the file will have, how many of them are empty, and the bytes of one;
        it is asked only where room is short at all. Empty pages are room for new work.
        """
        disk = os.statvfs(self._folder)
        free = disk.f_bavail * disk.f_frsize
        if free >= _PLENTY:
            return False
        total, empty, page_bytes = pages()
        wanted = max(total * page_bytes, (total - empty) * page_bytes + _MARGIN)
        return free < wanted - self._database.stat().st_size

    def look(self, make_room: Callable[[], None]) -> None:
        """At most once a second: make the reserve where it is missing, after `make_room` where need be."""
        if time.monotonic() - self._looked < _LOOK_S:
            return
        self._whole = self._make()
        if not self._whole and self._problem is None:
            make_room()
            self._whole = self._make()
        self._looked = time.monotonic()

    def give_back(self) -> bool:
        """Give up half of what is left of the reserve; False when nothing is."""
        self._whole, self._problem = False, None
        self._looked = time.monotonic()
        left = self._path.stat().st_size if self._path.exists() else 0
        if left == 0:
            return False
        os.truncate(self._path, left // 2 if left > _PIECE else 0)
        return True

    def _make(self) -> bool:
        self._problem = None
        try:
            file = open_beside(self._path, self._database)
        except OSError as error:
            self._note(error)
            return False
        left = os.fstat(file).st_size
        try:
            if left < _SIZE:
                _allocate(file)
        except OSError as error:
            self._note(error)
            # A failed allocation may make the file longer than it was: room that is wanted elsewhere.
            os.ftruncate(file, left)
            return False
        finally:
            os.close(file)
        return True

    def _note(self, error: OSError) -> None:
        if error.errno not in _NO_ROOM:
            self._problem = error.strerror or str(error)


def _allocate(file: int) -> None:
    """Take the room. Without posix_fallocate (macOS) by writing: a file made long by truncate is a hole."""
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(file, 0, _SIZE)
        return
    offset, zeros = 0, bytes(_PIECE)
    while offset < _SIZE:
        offset += os.pwrite(file, zeros[: _SIZE - offset], offset)


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
        """Look for room; `short`: the last transaction found none."""
        self._reserve.look(self._shrink)
        # Without the reserve the log must stay short: moving a long one into the file needs room of its own.
        if short or self._is_short():
            self._shorten_log()
            self._refuses = self._is_short()
        else:
            self._refuses = False

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

    def give_back(self) -> bool:
        """Free some of the reserve for what drains the store; False when nothing of it is left."""
        return self._reserve.give_back()

    def _is_short(self) -> bool:
        return not self._reserve.whole or self._reserve.tight(self._pages)

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
