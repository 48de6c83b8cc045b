"""How a database file is opened, checked and migrated, and how the driver's errors become ours.

Owns the pragmas: WAL, synchronous=FULL (class A), a bounded cache. It never writes a message.
Known weakness: a file on a network file system is not recognised; SQLite's locks are not safe there.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import apsw

from redrive.core.errors import InvalidMessage, StoreError, StoreFull, StoreUnavailable
from redrive.machine.private import create_file
from redrive.stores.sqlite.forks import watch_connection
from redrive.stores.statements import load_migrations

DIALECT = "sqlite"
WRITER_CACHE_KIB = 16_384
READER_CACHE_KIB = 2_048
READER_PATIENCE_MS = 5_000
WRITER_PATIENCE_MS = 50
_STATEMENTS_CACHED = 1_000
_DESCRIPTORS = 8
_LOG_INDEX = 64 * 1024


def open_writer(path: Path) -> apsw.Connection:
    """The one connection that changes the file; checkpoints are made elsewhere.

    What it has to keep aside is kept in memory: a page of messages passes the size at which SQLite would make
    a file for it.
    """
    connection = _connect(path, WRITER_PATIENCE_MS, WRITER_CACHE_KIB)
    connection.execute("pragma temp_store = memory")
    connection.wal_autocheckpoint(0)
    return connection


def open_reader(path: Path) -> apsw.Connection:
    """A connection for short reads; it cannot write."""
    connection = _connect(path, READER_PATIENCE_MS, READER_CACHE_KIB)
    connection.execute("pragma query_only = on")
    return connection


def check_schema(connection: apsw.Connection, path: Path) -> None:
    """StoreError when a newer Redrive has migrated the file under this process; asked in each transaction."""
    found, known = connection.execute("pragma user_version").get, len(load_migrations(DIALECT))
    if found != known:
        raise StoreError(
            f"{path} has schema {found} now, this process works with {known}: another version of Redrive "
            "has opened it, restart this process with that version"
        )


def prepare(path: Path) -> None:
    """Create or migrate the file; the caller holds the turn, so this happens once.

    SQLite gives its log the mode of the file, so the file is made before SQLite would.
    """
    with suppress(FileExistsError):
        create_file(path.resolve()).close()
    connection = _connect(path, READER_PATIENCE_MS, READER_CACHE_KIB)
    try:
        migrations = load_migrations(DIALECT)
        found = connection.pragma("user_version")
        if found > len(migrations):
            raise StoreError(
                f"{path} was written by a newer Redrive (schema {found}, this one knows {len(migrations)}): "
                "upgrade this installation, or choose another file"
            )
        if found == 0:
            _check_empty(connection, path)
            connection.pragma("auto_vacuum", "incremental")
        connection.pragma("journal_mode", "wal")
        for number, script in enumerate(migrations[found:], found + 1):
            with connection:
                connection.execute(script)
                connection.pragma("user_version", number)
    finally:
        connection.close()


@contextmanager
def translated(path: Path) -> Iterator[None]:
    """The errors of driver and disk as ours."""
    try:
        yield
    except (apsw.Error, OSError) as error:
        raise describe(error, path) from error
    except UnicodeEncodeError as error:
        raise InvalidMessage(
            "text holds a lone surrogate and cannot be stored: send valid Unicode"
        ) from error


def describe(error: BaseException, path: Path) -> StoreError:
    """Whatever went wrong, as an error of ours that says it."""
    match error:
        case StoreError():
            return error
        case apsw.Error():
            return translate(error, path)
        case OSError():
            return StoreUnavailable(
                f"{path}: the disk or a file beside it answers with an error ({error.strerror or error}): "
                "fix that, then try again"
            )
    return StoreUnavailable(
        f"{path}: writing failed unexpectedly ({type(error).__name__}: {error}): "
        "try again, and report it when it stays"
    )


def translate(error: apsw.Error, path: Path) -> StoreError:
    """What went wrong, why, and what to do."""
    match error:
        case apsw.FullError():
            return _full(path)
        case apsw.IOError() if disk_full(path):
            return _full(path)
        case apsw.BusyError() | apsw.LockedError():
            return StoreUnavailable(f"{path} is held by another program: close it, or try again")
        case apsw.CantOpenError() | apsw.IOError() if (problem := descriptors_gone()) is not None:
            return StoreUnavailable(f"{path} cannot be opened: {problem}")
        case apsw.NotADBError():
            return StoreError(f"{path} is not a Redrive database but some other file: choose another path")
        case apsw.CorruptError():
            return StoreError(
                f"{path} is damaged ({error}): restore a backup, or recover it with `sqlite3 .recover`"
            )
        case apsw.ReadOnlyError():
            return StoreError(
                f"{path} cannot be written: make the file and its folder writable for this user"
            )
        case apsw.CantOpenError():
            return StoreError(
                f"{path} cannot be opened: check that this user may read and write file and folder"
            )
        case apsw.IOError():
            return StoreUnavailable(
                f"{path}: the disk answers with an error ({error}): check the disk, then try again"
            )
    return StoreError(f"{path}: SQLite says {error}")


def _full(path: Path) -> StoreFull:
    return StoreFull(f"{path} cannot grow, the disk is full: free some space; what was accepted still drains")


def disk_full(path: Path) -> bool:
    """Whether not even the log's index has room: SQLite answers that with an input or output error."""
    disk = os.statvfs(path.parent)
    return disk.f_bavail * disk.f_frsize < _LOG_INDEX


def descriptors_gone() -> str | None:
    """What to say when hardly any file can be opened any more; SQLite does not say so."""
    opened: list[int] = []
    try:
        while len(opened) < _DESCRIPTORS:
            opened.append(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
    except OSError as error:
        if error.errno in (errno.EMFILE, errno.ENFILE):
            return f"{error.strerror}: close some, or raise the limit (`ulimit -n`), then try again"
    finally:
        for each in opened:
            os.close(each)
    return None


def _connect(path: Path, patience_ms: int, cache_kib: int) -> apsw.Connection:
    connection = apsw.Connection(str(path), statementcachesize=_STATEMENTS_CACHED)
    watch_connection(connection)
    connection.set_busy_timeout(patience_ms)
    # Otherwise SQLite prepares a statement anew for each new value that is bound: another plan might suit it.
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
    connection.execute("pragma synchronous = full")
    # On macOS a plain fsync leaves data in the drive's own cache; elsewhere these two change nothing.
    connection.execute("pragma fullfsync = on")
    connection.execute("pragma checkpoint_fullfsync = on")
    connection.execute(f"pragma cache_size = -{cache_kib}")
    return connection


def _check_empty(connection: apsw.Connection, path: Path) -> None:
    if connection.execute("select count(*) from sqlite_schema").get:
        raise StoreError(f"{path} is a database of another program: choose another path")
