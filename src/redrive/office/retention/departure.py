"""How letters leave: first the archive, whole and read back, then their removal under an audited action.

The order is the promise. A crash in between leaves letters in the store and in an archive: the next departure
archives them again, and a restore of both skips what is there already. What was re-driven meanwhile is of
another generation and stays.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from redrive.core.letters import DeadLetter, LetterKey
from redrive.core.lifecycle import Move
from redrive.core.ports import PAGE
from redrive.core.settings import RetentionSettings
from redrive.office.archive.files import folder_problem
from redrive.office.archive.lines import ArchiveError
from redrive.office.archive.reader import Archive
from redrive.office.archive.writer import ArchiveWriter
from redrive.office.audit import Actor, action
from redrive.office.ports import LetterStore

DAY_MS = 86_400_000
_PAGE = 100


@dataclass(slots=True)
class Leaving:
    """A page of a queue's letters that leave, by cause; `shared` ones would, and lack what they share."""

    aged: list[DeadLetter] = field(default_factory=list)
    excess: list[DeadLetter] = field(default_factory=list)
    shared: int = 0

    @property
    def letters(self) -> list[DeadLetter]:
        return self.aged + self.excess

    @property
    def looked_at(self) -> int:
        return len(self.aged) + len(self.excess) + self.shared


@dataclass(frozen=True, slots=True)
class RetentionLimits:
    """What may leave at an instant, given how many letters the queue has too many."""

    aged_before_at: int
    excess: int
    calm_before_at: int

    @classmethod
    def at(cls, settings: RetentionSettings, leave_at: int, dead: int) -> RetentionLimits:
        """The limits of a queue with so many dead letters."""
        aged = -1 if settings.keep_s is None else leave_at - round(settings.keep_s * 1000)
        excess = 0 if settings.keep is None else max(0, dead - settings.keep)
        return cls(aged, excess, leave_at - DAY_MS)

    def for_age(self, letter: DeadLetter) -> bool:
        return letter.died_at <= self.aged_before_at

    def for_number(self, letter: DeadLetter, place: int) -> bool:
        return place < self.excess and letter.died_at <= self.calm_before_at


def is_whole(letter: DeadLetter) -> bool:
    """Whether a letter has all that it needs to come back: its own body, and what it shares."""
    return letter.message.parent is None or letter.shared is not None


async def leaving(store: LetterStore, queue: str, limits: RetentionLimits) -> AsyncIterator[Leaving]:
    """What leaves, oldest first, in pages. Letters may be removed meanwhile."""
    place, cursor = 0, None
    while True:
        page = await store.letters(queue, after=cursor, limit=_PAGE)
        leaves = Leaving()
        for letter in page.letters:
            age = limits.for_age(letter)
            if not age and not limits.for_number(letter, place):
                break
            place += 1
            if is_whole(letter):
                (leaves.aged if age else leaves.excess).append(letter)
            else:
                leaves.shared += 1
        yield leaves
        cursor = page.cursor
        if cursor is None or leaves.looked_at < len(page.letters):
            return


ACTOR = Actor("retention", "duty")
FILE_LETTERS = 10_000


class Departure:
    """The letters of one queue on their way out, in archives of at most FILE_LETTERS."""

    def __init__(
        self,
        store: LetterStore,
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
