"""The one writer: steps asked for at the same time share one transaction and one fsync (group commit).

A step is a function of a `Step`; it runs on the event loop's thread, because a writer thread starves beside a
busy loop. Waiting for another process, and a commit on a slow disk, happen in a thread. A step that raises
undoes only itself, and nobody is answered before COMMIT. A step may run twice (after a full disk), so it
keeps nothing of its own between runs. Known weakness: a long step holds up the loop; callers cut pages.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import apsw

from redrive.core.errors import StoreError, StoreFull, StoreUnavailable
from redrive.stores.sqlite.connection import translated
from redrive.stores.sqlite.reserve import Reserve
from redrive.stores.sqlite.turn_lock import TurnLock

T = TypeVar("T")

PATIENCE_S = 30.0
_GROUP_S = 0.010
_SLOW_COMMIT_S = 0.003
_MEMORY = 0.2
_PAGES_BACK = 1_024
_FULL = 2


@dataclass(slots=True)
class Step:
    """What a step works with. `due` collects the queues in which it made work due."""

    db: apsw.Connection
    now: int
    due: set[str] = field(default_factory=set)


Operation = Callable[[Step], T]


@dataclass(slots=True)
class _Job:
    operation: Operation[Any]
    future: asyncio.Future[Any]
    drains: bool
    repeated: bool = False
    result: Any = None
    error: Exception | None = None

    def answer(self) -> None:
        if self.future.done():
            return
        if self.error is not None:
            self.future.set_exception(self.error)
        else:
            self.future.set_result(self.result)


class Writer:
    """Runs steps in the order they were asked for. Used from one event loop."""

    def __init__(
        self,
        connection: apsw.Connection,
        lock: TurnLock,
        path: Path,
        clock: Callable[[], int],
        committed: Callable[[set[str]], None],
    ) -> None:
        self._connection, self._lock, self._path = connection, lock, path
        self._reserve = Reserve(path)
        self._refuses = False
        self._clock, self._committed = clock, committed
        self._thread = ThreadPoolExecutor(1, "redrive-sqlite-commit")
        self._jobs: deque[_Job] = deque()
        self._task: asyncio.Task[None] | None = None
        self._commit_s = 0.0
        self._closed = False

    @property
    def refuses(self) -> bool:
        """Whether new work was refused, for want of room, when that was last looked at."""
        return self._refuses

    @property
    def synced(self) -> bool:
        """Whether a commit is on disk before it is answered, as the live connection has it."""
        return bool(self._connection.pragma("synchronous") >= _FULL)

    async def run(self, operation: Operation[T], *, drains: bool = False) -> T:
        """Run a step and answer after its commit. `drains`: it must go on when the disk is full (P56)."""
        if self._closed:
            raise StoreError(f"{self._path} is closed: open the store before using it")
        job = _Job(operation, asyncio.get_running_loop().create_future(), drains)
        self._jobs.append(job)
        if self._task is None:
            self._task = asyncio.create_task(self._work())
        result: T = await job.future
        return result

    async def close(self) -> None:
        """Finish what was asked for, then stop."""
        self._closed = True
        if self._task is not None:
            await self._task
        self._thread.shutdown(wait=True)

    async def _work(self) -> None:
        try:
            while self._jobs:
                await self._transaction()
                await asyncio.sleep(0)
        finally:
            self._task = None

    async def _transaction(self) -> None:
        group: list[_Job] = []
        due: set[str] = set()
        try:
            await self._begin()
            try:
                self._run_group(group, due)
                await self._commit()
            finally:
                self._end()
        except StoreFull as error:
            self._drain(group, error)
            return
        except StoreError as error:
            self._fail(group or self._all(), error)
            return
        self._committed(due)
        for job in group:
            job.answer()

    def _drain(self, group: list[_Job], error: StoreFull) -> None:
        """The disk is full: free the reserve, and let what drains the store try once more (P56)."""
        repeated = [job for job in group if job.drains and not job.repeated]
        self._fail([job for job in group if not job.drains or job.repeated], error)
        if repeated:
            self._reserve.give_back()
        for job in reversed(repeated):
            job.repeated, job.error = True, None
            self._jobs.appendleft(job)

    def _look_for_room(self) -> None:
        """Between transactions, in our turn: the only moment at which the log can be shortened."""
        repeats = bool(self._jobs) and self._jobs[0].repeated
        self._reserve.look(self._shrink)
        # Without the reserve the log must stay short: moving a long one into the file needs room of its own.
        if repeats or not self._reserve.whole or self._reserve.tight(self._pages):
            self._shorten_log()
        self._refuses = not self._reserve.whole or self._reserve.tight(self._pages)

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

    async def _begin(self) -> None:
        ends = time.monotonic() + PATIENCE_S
        if not self._lock.try_take() and not await self._in_thread(self._lock.take, PATIENCE_S):
            raise StoreUnavailable(
                f"{self._path} has been held by another Redrive process for {PATIENCE_S:.0f} s: "
                "see whether one of them is stopped, then try again"
            )
        try:
            self._look_for_room()
            await self._begin_immediate(ends)
        except BaseException:
            self._lock.release()
            raise

    async def _begin_immediate(self, ends: float) -> None:
        while True:
            try:
                with translated(self._path):
                    self._connection.execute("begin immediate")
                return
            except StoreUnavailable:
                if time.monotonic() >= ends:
                    raise
            await asyncio.sleep(0.01)

    def _run_group(self, group: list[_Job], due: set[str]) -> None:
        """Run what waits, until it is all done or the loop has been held long enough."""
        ends = time.perf_counter() + _GROUP_S
        while self._jobs and (not group or time.perf_counter() < ends):
            job = self._jobs.popleft()
            if job.future.cancelled():
                continue
            group.append(job)
            if not job.drains and self._refuses:
                job.error = StoreFull(
                    f"{self._path}: the disk is nearly full; new work is refused, accepted work drains: "
                    "free some space"
                )
                continue
            self._run_job(job, due)

    def _run_job(self, job: _Job, due: set[str]) -> None:
        step = Step(self._connection, self._clock())
        self._connection.execute("savepoint step")
        try:
            with translated(self._path):
                job.result = job.operation(step)
            due |= step.due
        except Exception as error:
            # SQLite ends the whole transaction by itself when the disk is full or fails.
            if isinstance(error, StoreFull) or not self._connection.in_transaction:
                raise
            job.error = error
            self._connection.execute("rollback to step")
        self._connection.execute("release step")

    async def _commit(self) -> None:
        if self._commit_s < _SLOW_COMMIT_S:
            took_s = self._commit_now()
        else:
            took_s = await self._in_thread(self._commit_now)
        self._commit_s += _MEMORY * (took_s - self._commit_s)

    def _commit_now(self) -> float:
        began = time.perf_counter()
        with translated(self._path):
            self._connection.execute("commit")
        return time.perf_counter() - began

    def _end(self) -> None:
        if self._connection.in_transaction:
            self._connection.execute("rollback")
        self._lock.release()

    def _fail(self, group: list[_Job], error: StoreError) -> None:
        for job in group:
            job.error = job.error or error
            job.answer()

    def _all(self) -> list[_Job]:
        """Everybody who waits: no transaction can be begun for them."""
        jobs = list(self._jobs)
        self._jobs.clear()
        return jobs

    async def _in_thread(self, function: Callable[..., T], *arguments: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, function, *arguments)
