"""A disposable index: a file of ours, or memory, with the relations of the SQLite store's own index.

It holds payloads, so it is readable by its owner alone and lies in a folder that nobody else can write.
Several processes share one file; a page of changes is taken in by whoever comes first, and only on top of the
page before it. A damaged file is emptied in place, never replaced: another process may have it open.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import apsw

from redrive.core.letters import ChangePage, DeadLetter
from redrive.machine.private import FILE_MODE, make_folder
from redrive.machine.statements import load_sections
from redrive.office.documents.letters import failed_attempts
from redrive.office.index.read import PATIENCE_MS, read_only

UNUSED_S = 7 * 86_400.0


def make_file(folder: Path, name: str) -> Path | None:
    """An empty or known file by a name, or None where there can be none that is safe."""
    path = folder / f"{hashlib.sha256(name.encode()).hexdigest()[:16]}.db"
    try:
        make_folder(folder)
        status = folder.stat()
        if status.st_uid != os.getuid() or status.st_mode & 0o022:
            return None
        use_file(path)
        path.chmod(FILE_MODE)
        _remove_unused(folder)
    except OSError:
        return None
    return path


def use_file(path: Path) -> None:
    """Say that the file is used, and make it anew where it is gone: never one that others can read."""
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, FILE_MODE))
    os.utime(path)


def _remove_unused(folder: Path) -> None:
    before = time.time() - UNUSED_S
    for path in folder.glob("*.db"):
        if path.stat().st_mtime < before:
            for part in (path, path.with_name(f"{path.name}-wal"), path.with_name(f"{path.name}-shm")):
                part.unlink(missing_ok=True)


SCHEMA = 2
_SQL = load_sections("redrive.office", "statements/index.sql")
_CACHE_KIB = 16_384
_LOG_PAGES = 16_000
_DAMAGED = (apsw.CorruptError, apsw.NotADBError)


class Disposable:
    """The file of one store, by its name; without a folder that can be trusted, memory."""

    def __init__(self, folder: Path | None, name: str) -> None:
        self._path = None if folder is None else make_file(folder, f"{name}\n{SCHEMA}")
        self._memory = f"file:/redrive-{secrets.token_hex(8)}?vfs=memdb"
        self._keeper: apsw.Connection | None = None

    @property
    def address(self) -> str:
        """What to read from."""
        return self._memory if self._path is None else read_only(self._path)

    def open(self) -> Filling:
        """Open it for writing; the tables are made where there are none."""
        if self._path is not None:
            with suppress(OSError):
                use_file(self._path)
        db = self._connect()
        try:
            db.execute("pragma synchronous = off")
            db.execute(f"pragma cache_size = -{_CACHE_KIB}")
            db.wal_autocheckpoint(_LOG_PAGES)
            _prepare(db)
        except BaseException:
            db.close()
            raise
        return Filling(db)

    def empty(self) -> None:
        """Forget everything, also what is damaged; the next catch-up begins anew."""
        db = self._connect()
        try:
            _reset(db)
        finally:
            db.close()

    def close(self) -> None:
        """Let go of the memory."""
        if self._keeper is not None:
            self._keeper.close()
            self._keeper = None

    def _connect(self) -> apsw.Connection:
        flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE | apsw.SQLITE_OPEN_URI
        if self._path is None and self._keeper is None:
            self._keeper = apsw.Connection(self._memory, flags=flags)
        db = apsw.Connection(self._memory if self._path is None else str(self._path), flags=flags)
        db.set_busy_timeout(PATIENCE_MS)
        return db


class Filling:
    """An open disposable index, being written."""

    def __init__(self, db: apsw.Connection) -> None:
        self._db = db

    def close(self) -> None:
        """Let go of the file."""
        self._db.close()

    def caught_up_at(self) -> int | None:
        """When the store was last seen whole, by any process."""
        at: int | None = self._db.execute(_SQL["caught_up"]).get
        return at

    def set_caught_up(self, at: int) -> None:
        """The store was seen whole at this instant."""
        self._db.execute(_SQL["set_caught_up"], (at,))

    def positions(self) -> dict[str, int]:
        """How far each queue's changes were taken in."""
        return dict(self._db.execute(_SQL["positions"]))

    def apply(self, queue: str, after: int, page: ChangePage) -> int:
        """Take in the page after a position; the position then, which another process may have set."""
        db = self._db
        with _transaction(db):
            found = int(db.execute(_SQL["position"], (queue,)).get or 0)
            if found != after:
                return found
            if page.reset:
                db.execute(_SQL["forget_bodies"], (queue,))
                db.execute(_SQL["forget_letters"], (queue,))
            gone = [(change.id, queue) for change in page.changes if change.letter is None]
            letters = [change.letter for change in page.changes if change.letter is not None]
            db.executemany(_SQL["remove_body"], gone)
            db.executemany(_SQL["remove_letter"], gone)
            db.executemany(_SQL["add_letter"], map(letter_row, letters))
            db.executemany(_SQL["add_body"], ((one.message.id, one.message.body) for one in letters))
            db.execute(_SQL["set_position"], (queue, page.position))
            return page.position


def letter_row(letter: DeadLetter) -> tuple[str | int | float | None, ...]:
    """A letter as a row of `letters`."""
    message = letter.message
    last = letter.failures[-1] if letter.failures else None
    return (
        message.id,
        message.queue,
        message.tenant,
        letter.reason.value,
        last.kind.value if last else None,
        last.code if last else None,
        last.reason if last else letter.reason.value,
        letter.fingerprint,
        failed_attempts(letter),
        len(letter.redrives),
        letter.progress.generation,
        message.enqueued_at,
        letter.died_at,
        message.ttl_s,
        letter.first_died_at,
    )


def is_damage(error: BaseException) -> bool:
    """Whether an error says that the file itself is spoilt."""
    return isinstance(error, _DAMAGED) or isinstance(error.__cause__, _DAMAGED)


def _prepare(db: apsw.Connection) -> None:
    """Make the tables where there are none yet; what another version made is emptied first."""
    found = db.pragma("user_version")
    if found == SCHEMA:
        return
    if found != 0:
        _reset(db)
    db.pragma("journal_mode", "wal")
    with _transaction(db):
        if db.pragma("user_version") != SCHEMA:
            db.execute(_SQL["schema"])
            db.pragma("user_version", SCHEMA)


def _reset(db: apsw.Connection) -> None:
    """Empty the database in place, whatever is in it, while others may have it open."""
    db.config(apsw.SQLITE_DBCONFIG_RESET_DATABASE, 1)
    db.execute("vacuum")
    db.config(apsw.SQLITE_DBCONFIG_RESET_DATABASE, 0)


@contextmanager
def _transaction(db: apsw.Connection) -> Iterator[None]:
    db.execute("begin immediate")
    try:
        yield
    except BaseException:
        if db.in_transaction:
            db.execute("rollback")
        raise
    db.execute("commit")
