"""The way back: what an archive holds is dead again in the store, as it was when it left.

The whole file is checked before the first letter moves. Each page is one `bury`, which skips what is already
there, so that a restore may be repeated or continued after a crash. Restored letters are mostly older than
retention keeps them: before they come, their queue is told to keep everything for a day.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from redrive.core.letters import DeadLetter
from redrive.office.archive.reader import archive_pages
from redrive.office.ports import LetterStore
from redrive.office.retention.departure import DAY_MS
from redrive.office.retention.notice import Notice, read_notice, write_notice


@dataclass(frozen=True, slots=True)
class Restored:
    """One page of a restore: the letters that are dead again, and how many were already known."""

    ids: frozenset[str]
    skipped: int


async def restore(store: LetterStore, path: Path, sha256: str | None = None) -> AsyncIterator[Restored]:
    """Bury the letters of an archive, page by page; ArchiveError before the first when it is not whole.

    With a hash, it must be the archive that had this one.
    """
    spared: set[str] = set()
    async for page in archive_pages(path, sha256):
        await _spare(store, page, spared)
        ids = frozenset(await store.bury(page))
        yield Restored(ids, len(page) - len(ids))


async def _spare(store: LetterStore, page: Iterable[DeadLetter], spared: set[str]) -> None:
    """Let nothing leave the queues of these letters for a day."""
    for queue in {letter.message.queue for letter in page} - spared:
        leave_at, written = store.now() + DAY_MS, False
        while not written:
            before, version = await read_notice(store, queue)
            notice = before or Notice(queue, leave_at)
            spare = replace(notice, leave_at=max(leave_at, notice.leave_at))
            written = await write_notice(store, spare, version)
        spared.add(queue)
