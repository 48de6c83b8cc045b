"""The duty of one process: announce what will leave, and a day later archive it and remove it.

A letter leaves at most a day after it has passed its limit, with all others of its queue that have. What is
announced is what leaves: the limits are those of the announced instant. When an archive cannot be written,
nothing leaves, and it is announced again with the reason. Two processes that both had the duty would write
letters twice and remove each once.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path

from redrive.core.settings import RetentionSettings
from redrive.office.archive.files import folder_problem
from redrive.office.archive.lines import ArchiveError
from redrive.office.ports import LetterStore
from redrive.office.retention.departure import DAY_MS, Departure, Leaving, RetentionLimits, leaving
from redrive.office.retention.notice import Notice, read_notice, write_notice
from redrive.telemetry.events import Event, LettersArchived, LettersLeaving, RetentionFailed

LOOK_S = 3_600.0
BEAT_S = 30.0
"""How often a process that has the duty says so, whether there is something to do or not."""


class Retention:
    """The duty on one store."""

    def __init__(
        self, store: LetterStore, settings: RetentionSettings, emit: Callable[[Event], None] = lambda _: None
    ) -> None:
        self._store = store
        self._settings = settings
        self._emit = emit
        self._look_at = 0
        self._folder = None if settings.folder is None else Path(settings.folder)
        self._notice_ms = DAY_MS if settings.keep_s is None else min(DAY_MS, round(settings.keep_s * 1000))

    async def step(self) -> float:
        """Look at every queue once an hour, and whenever letters are to leave; return when to call again."""
        if self._store.now() >= self._look_at:
            self._look_at = await self._look()
        return min(BEAT_S, max(1.0, (self._look_at - self._store.now()) / 1000))

    async def _look(self) -> int:
        """Attend to every queue; the instant of the next look."""
        look_at = self._store.now() + round(LOOK_S * 1000)
        for counts in await self._store.queues():
            notice = await self._attend(counts.queue, counts.dlq)
            if notice.leaving and not notice.problem:
                look_at = min(look_at, notice.leave_at)
        return look_at

    async def _attend(self, queue: str, dead: int) -> Notice:
        """Archive what was announced and is due, then announce what is next."""
        before, version = await read_notice(self._store, queue)
        notice, failure = before or Notice(queue, self._store.now()), ""
        if notice.leaving and notice.leave_at <= self._store.now():
            departure, failure = await self._leave(notice, dead)
            notice, dead = self._tell(notice, departure), dead - departure.left
        notice = await self._count(notice, dead, failure)
        if before is not None or notice.leaving or notice.shared:
            await write_notice(self._store, notice, version)
        self._announce(before, notice)
        return notice

    def _announce(self, before: Notice | None, notice: Notice) -> None:
        """Say once what is new about a notice: that letters cannot leave, or that they will."""
        if notice.problem:
            if before is None or before.problem != notice.problem:
                self._emit(RetentionFailed(notice.queue, notice.problem))
        elif notice.leaving and notice.folder and not _same_departure(before, notice):
            self._emit(LettersLeaving(notice.queue, notice.leaving, notice.leave_at, notice.folder))

    async def _leave(self, notice: Notice, dead: int) -> tuple[Departure, str]:
        """Archive and remove what was announced; what left, and why not all of it."""
        departure = Departure(self._store, notice.queue, self._folder)
        try:
            async for page in self._leaving(notice, dead):
                await departure.add(page.letters)
            await departure.end()
        except ArchiveError as error:
            return departure, str(error)
        finally:
            departure.abandon()
        return departure, ""

    def _tell(self, notice: Notice, departure: Departure) -> Notice:
        """The notice with what left."""
        if not departure.left:
            return notice
        path = str(departure.paths[-1])
        self._emit(LettersArchived(notice.queue, departure.left, path))
        return replace(notice, left=departure.left, left_at=self._store.now(), left_to=path)

    async def _count(self, before: Notice, dead: int, failure: str) -> Notice:
        """The notice of what leaves next, at the instant that was announced or else a day from now."""
        now = self._store.now()
        leave_at = before.leave_at if before.leave_at > now else now + self._notice_ms
        notice = replace(before, leave_at=leave_at, folder=self._settings.folder, problem="")
        aged = excess = shared = 0
        async for page in self._leaving(notice, dead):
            aged, excess, shared = aged + len(page.aged), excess + len(page.excess), shared + page.shared
        if aged + excess:
            problem = await asyncio.to_thread(folder_problem, self._folder)
            notice = replace(notice, problem=problem or failure)
        return replace(notice, aged=aged, excess=excess, shared=shared)

    def _leaving(self, notice: Notice, dead: int) -> AsyncIterator[Leaving]:
        return leaving(self._store, notice.queue, RetentionLimits.at(self._settings, notice.leave_at, dead))


def _same_departure(before: Notice | None, notice: Notice) -> bool:
    return before is not None and bool(before.leaving) and before.leave_at == notice.leave_at
