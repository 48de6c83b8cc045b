"""How letters leave: first the archive, whole and read back, then their removal under an audited action.

The order is the promise. A crash in between leaves letters in the store and in an archive: the next departure
archives them again, and a restore of both skips what is there already. What was re-driven meanwhile is of
another generation and stays.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from redrive.core.letters import DeadLetter, LetterKey
from redrive.core.lifecycle import Move
from redrive.core.ports import PAGE, Store
from redrive.office.archive.files import folder_problem
from redrive.office.archive.lines import ArchiveError
from redrive.office.archive.reader import Archive
from redrive.office.archive.writer import ArchiveWriter
from redrive.office.audit import Actor, action
from redrive.office.retention.leaving import is_whole

ACTOR = Actor("retention", "duty")
FILE_LETTERS = 10_000


class Departure:
    """The letters of one queue on their way out, in archives of at most FILE_LETTERS."""

    def __init__(
        self,
        store: Store,
        queue: str,
        folder: Path | None,
        *,
        actor: Actor = ACTOR,
        operation: str | None = None,
    ) -> None:
        self.left = 0
        self.paths: list[Path] = []
        self._store = store
        self._queue = queue
        self._folder = folder
        self._actor = actor
        self._operation = operation
        self._writer: ArchiveWriter | None = None
        self._keys: list[LetterKey] = []

    async def add(self, letters: Sequence[DeadLetter]) -> None:
        """Write letters to the archive; a full one is finished and its letters removed.

        One that has lost what it shares with its siblings is left out: it could not be brought back whole.
        """
        letters = [one for one in letters if is_whole(one)]
        if not letters:
            return
        if self._writer is None:
            self._writer = await self._open()
        await asyncio.to_thread(self._writer.add, letters)
        self._keys += [LetterKey(one.message.id, one.progress.generation) for one in letters]
        if len(self._keys) >= FILE_LETTERS:
            await self.end()

    async def end(self) -> None:
        """Finish the archive, then remove its letters from the store."""
        if self._writer is None:
            return
        writer, keys = self._writer, self._keys
        self._writer, self._keys = None, []
        archive = await asyncio.to_thread(writer.finish)
        self.paths.append(archive.path)
        await self._remove(archive, keys)

    def abandon(self) -> None:
        """Leave no trace of an archive that is not finished; its letters stay."""
        if self._writer is not None:
            self._writer.abandon()
            self._writer = None

    async def _open(self) -> ArchiveWriter:
        folder = self._folder
        if folder is None:
            raise ArchiveError(folder_problem(folder))
        described = await self._store.describe()
        made_at = self._store.now()
        return await asyncio.to_thread(
            ArchiveWriter, folder, store=described.url, queue=self._queue, made_at=made_at
        )

    async def _remove(self, archive: Archive, keys: Sequence[LetterKey]) -> None:
        subject = {
            "queue": self._queue,
            "file": str(archive.path),
            "sha256": archive.sha256,
            "letters": archive.count,
            "operation": self._operation,
        }
        async with action(self._store, self._actor, "archive", subject) as current:
            removed = 0
            for start in range(0, len(keys), PAGE):
                chunk = keys[start : start + PAGE]
                gone = await self._store.remove(
                    self._queue, chunk, Move.ARCHIVE, actor=self._actor.name, operation=self._operation
                )
                removed += len(gone)
                self.left += len(gone)
                current.result.update(moved=removed, skipped=start + len(chunk) - removed)
