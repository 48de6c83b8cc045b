"""How full the file is, what an operator should know of it, and copies of it while it is in use.

Sizes by state are estimates: how many there are, by the mean of some bodies and what their rows cost beside
them; what neither waits nor is dead counts as finished, where anything is. The check of the file's structure
reads all of it, so it has a time of its own and says when that was too short.
Known weakness: what a disk quota still allows is not seen.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import apsw

from redrive.core.condition import Capacity, Finding, Grade
from redrive.core.errors import StoreError
from redrive.machine.private import create_file, wider
from redrive.stores.sqlite.connection import DIALECT, open_reader
from redrive.stores.sqlite.forks import Section
from redrive.stores.sqlite.witness import losses
from redrive.stores.statements import load_sql

SQL = load_sql(DIALECT, "examination")

Progress = Callable[[int, int], None]
"""Hears of pages done and pages in all."""

CHECK_S = 5.0
_CHECK_STEPS = 10_000
_FIXED = (3, 51, 3)
_LOW_DISK = 1024**3
_BACKUP_PAGES = 1_000
_LONG_LOG = 256 * 1024**2
_BESIDE = ("-wal", "-shm", "-gate", "-turn", "-reserve")


@dataclass(frozen=True, slots=True)
class Files:
    """The sizes of the database and its log, and the room that the disk has left."""

    database: int
    log: int
    free: int

    @classmethod
    def of(cls, path: Path) -> Files:
        disk = os.statvfs(path.parent)
        log = path.with_name(path.name + "-wal")
        log_bytes = log.stat().st_size if log.exists() else 0
        return cls(path.stat().st_size, log_bytes, disk.f_bavail * disk.f_frsize)


def capacity(db: apsw.Connection, path: Path, *, accepts: bool) -> Capacity:
    """The work of `Store.capacity`."""
    files = Files.of(path)
    any_finished, empty_pages, waiting, dead = db.execute(SQL["bytes_by_state"]).get
    pages = db.pragma("page_count") - db.pragma("freelist_count") - empty_pages
    rest = max(0, pages * db.pragma("page_size") - waiting - dead)
    used = files.database + files.log
    return Capacity(
        used_bytes=used,
        limit_bytes=used + files.free,
        waiting_bytes=waiting,
        finished_bytes=rest if any_finished else 0,
        dead_bytes=dead,
        accepts=accepts,
        note="" if accepts else "the disk is nearly full: new work is refused, accepted work drains",
    )


def examine(path: Path, *, accepts: bool, synced: bool, check_s: float = CHECK_S) -> list[Finding]:
    """The work of `Store.examine`; it may take as long as `check_s`."""
    with Section():
        return _examine(path, accepts=accepts, synced=synced, check_s=check_s)


def _examine(path: Path, *, accepts: bool, synced: bool, check_s: float) -> list[Finding]:
    db = open_reader(path)
    try:
        return [
            *_settings(db, synced),
            *_surroundings(path, Files.of(path), accepts),
            _privacy(path),
            _completeness(db),
            _structure(db, check_s),
        ]
    finally:
        db.close()


def _settings(db: apsw.Connection, synced: bool) -> Iterator[Finding]:
    version = apsw.sqlite_lib_version()
    fixed = tuple(int(part) for part in version.split(".")) >= _FIXED
    yield Finding(
        "sqlite version",
        Grade.RIGHT if fixed else Grade.WARNING,
        version,
        "" if fixed else "older ones can lose a commit when the log starts anew: upgrade apsw",
    )
    journal = db.pragma("journal_mode")
    yield Finding(
        "journal mode",
        Grade.RIGHT if journal == "wal" else Grade.WRONG,
        journal,
        "" if journal == "wal" else "another program changed it: close that, then open the store again",
    )
    yield Finding(
        "durability",
        Grade.RIGHT if synced else Grade.WRONG,
        "class A: every commit is synced before it is answered" if synced else "commits are not synced",
        "" if synced else "open the store with this version of Redrive only",
    )


def _surroundings(path: Path, files: Files, accepts: bool) -> Iterator[Finding]:
    writable = os.access(path.parent, os.W_OK | os.X_OK) and os.access(path, os.R_OK | os.W_OK)
    yield Finding(
        "folder",
        Grade.RIGHT if writable else Grade.WRONG,
        f"{path.parent} can{'' if writable else 'not'} be written",
        "" if writable else "let this user write the file and its folder: the log stands beside the file",
    )
    grade = Grade.WARNING if files.free < _LOW_DISK else Grade.RIGHT
    yield Finding(
        "free disk",
        grade if accepts else Grade.WRONG,
        f"{_mebibytes(files.free)} free, {_mebibytes(files.database)} in use",
        ""
        if accepts and grade is Grade.RIGHT
        else "free some space: when there is none, new work is refused",
    )
    long = files.log > _LONG_LOG
    yield Finding(
        "log",
        Grade.WARNING if long else Grade.RIGHT,
        f"{_mebibytes(files.log)} of write-ahead log",
        "a program that keeps a read open stops it from being emptied: find and close it" if long else "",
    )


def _privacy(path: Path) -> Finding:
    ours = [path, *(path.with_name(path.name + end) for end in _BESIDE)]
    names = [f"{one.name} (mode {one.stat().st_mode & 0o777:o})" for one in wider(ours)]
    if not names:
        return Finding("privacy", Grade.RIGHT, "only this user may read the file and those beside it")
    return Finding(
        "privacy",
        Grade.WARNING,
        f"other users may read {', '.join(names)}: messages and hashes of keys are in there",
        f"chmod 600 {path}*; leave it where a group shares the store on purpose",
    )


def _completeness(db: apsw.Connection) -> Finding:
    found_at, count = losses(db)
    if found_at is None:
        return Finding("completeness", Grade.RIGHT, "nothing that was committed was ever found missing")
    when = datetime.fromtimestamp(found_at / 1000, UTC).isoformat(" ", "seconds")
    return Finding(
        "completeness",
        Grade.WARNING,
        f"committed messages were found missing {count} time{'s' if count > 1 else ''}, last on {when}: the "
        "log beside the file had been deleted, or an older copy put in its place",
        "compare with what was submitted, or with a backup; never move or delete the files beside a database",
    )


def _structure(db: apsw.Connection, check_s: float) -> Finding:
    ends = time.monotonic() + check_s
    db.set_progress_handler(lambda: time.monotonic() > ends, _CHECK_STEPS)
    try:
        found = str(db.execute("pragma quick_check(1)").get)
    except apsw.InterruptError:
        return Finding(
            "structure",
            Grade.UNKNOWN,
            f"not checked to the end within {check_s:.0f} s",
            "check a backup of it at leisure: sqlite3 copy.db 'pragma quick_check'",
        )
    if found == "ok":
        return Finding("structure", Grade.RIGHT, "every page reads as it should")
    return Finding("structure", Grade.WRONG, found, "restore a backup, or recover it with `sqlite3 .recover`")


def _mebibytes(count: int) -> str:
    return f"{count / 1024**2:,.0f} MiB"


async def copy_file(source: Path, target: Path, progress: Progress | None) -> None:
    """SQLite's online backup, in a thread of its own; `progress` hears of it in this one."""
    loop = asyncio.get_running_loop()

    def tell(done: int, total: int) -> None:
        if progress is not None:
            loop.call_soon_threadsafe(progress, done, total)

    await asyncio.to_thread(_copy_aside, source, target, tell)


def _copy_aside(source: Path, target: Path, tell: Progress) -> None:
    with Section():
        _copy(source, target, tell)


def _copy(source: Path, target: Path, tell: Progress) -> None:
    if target.exists():
        raise StoreError(f"{target} exists already: a backup never overwrites, name a new file")
    if not target.parent.is_dir():
        raise StoreError(f"{target}: the folder {target.parent} does not exist: create it first")
    # Written beside its name and renamed at the end, so that a backup is whole or not there.
    unfinished = target.with_name(target.name + "-unfinished")
    unfinished.unlink(missing_ok=True)
    origin = open_reader(source)
    try:
        _copy_pages(origin, unfinished, tell)
        unfinished.rename(target)
    finally:
        origin.close()
        unfinished.unlink(missing_ok=True)


def _copy_pages(origin: apsw.Connection, target: Path, tell: Progress) -> None:
    create_file(target).close()
    copy = apsw.Connection(str(target))
    try:
        # A snapshot keeps writers of other connections from starting the copy over.
        origin.execute("begin; select count(*) from queues").fetchall()
        with copy.backup("main", origin, "main") as backup:
            while not backup.done:
                backup.step(_BACKUP_PAGES)
                tell(backup.page_count - backup.remaining, backup.page_count)
        copy.pragma("journal_mode", "delete")
    finally:
        copy.close()
