"""The one writer: work asked for at the same time share one transaction and one fsync (group commit).

Work is a function of a `Unit`; it runs on the event loop's thread, because a writer thread starves beside a
busy loop. The turn is never held while the loop does something else: it is taken, used and given up in one
call. Waiting for it happens in a thread, which offers it to the loop and gives it up when the loop does not
come (`Offer`); a commit on a slow disk happens in that thread, with everything after it.

Work that raises undoes only itself, and nobody is answered before COMMIT. Whatever else goes wrong fails
the calls of that transaction, never the writer: no call is left without an answer. There is no task, so
nobody can cancel it. Work may run twice (after a full disk, or beside work that raised), so it keeps nothing
of its own between runs.
Known weakness: long work holds up the loop; callers cut pages.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import compress
from operator import not_
from pathlib import Path
from typing import TypeVar

import apsw

from redrive.core.errors import StoreError, StoreFull
from redrive.stores.sqlite.clock import Instant
from redrive.stores.sqlite.connection import check_schema, describe, translated
from redrive.stores.sqlite.forks import Section
from redrive.stores.sqlite.reserve import Room
from redrive.stores.sqlite.turn_lock import PATIENCE_S, Offer, TurnLock, held_too_long
from redrive.stores.sqlite.unit import Job, Unit, Work, WriteTransaction
from redrive.stores.sqlite.witness import Witness

T = TypeVar("T")

_GROUP_S = 0.010
_BUSY_S = 0.010
_SLOW_COMMIT_S = 0.003
_MEMORY = 0.2
_FULL = 2

_log = logging.getLogger("redrive.stores.sqlite")


class _WorkRaised(Exception):
    """Some work raised, so nothing of its transaction may be committed."""


class Writer:
    """Runs work in the order it was asked for. Used from one event loop."""

    def __init__(
        self,
        connection: apsw.Connection,
        lock: TurnLock,
        path: Path,
        clock: Callable[[], Instant],
        committed: Callable[[set[str]], None],
    ) -> None:
        self._connection, self._lock, self._path = connection, lock, path
        self._room = Room(connection, path)
        self._witness = Witness(connection, path)
        self._section = Section()
        self._clock, self._committed = clock, committed
        self._thread = ThreadPoolExecutor(1, "redrive-sqlite-commit")
        self._jobs: deque[Job] = deque()
        self._loop = asyncio.get_running_loop()
        self._working = False
        self._idle: asyncio.Future[None] | None = None
        self._busy_until: float | None = None
        self._missed = 0
        self._commit_s = 0.0
        self._closed = False
        self.synced: bool = connection.pragma("synchronous") >= _FULL
        """Whether a commit is on disk before it is answered, as the live connection has it."""

    @property
    def refuses(self) -> bool:
        """Whether new work was refused, for want of room, when that was last looked at."""
        return self._room.refuses

    async def run(self, work: Work[T], *, drains: bool = False) -> T:
        """Run work and answer after its commit. `drains`: it must go on when the disk is full."""
        if self._closed:
            raise StoreError(f"{self._path} is closed: open the store before using it")
        job = Job(work, asyncio.get_running_loop().create_future(), drains)
        self._jobs.append(job)
        if not self._working:
            self._working = True
            self._loop.call_soon(self._take_turn)
        result: T = await job.future
        return result

    async def close(self) -> None:
        """Finish what was asked for, then stop."""
        self._closed = True
        if self._working:
            self._idle = self._loop.create_future()
            await self._idle
        self._thread.shutdown(wait=True)

    def abandon(self) -> None:
        """Stop at once: the event loop is closed, so nobody waits for an answer any more."""
        self._closed = True
        self._jobs.clear()
        self._thread.shutdown(wait=True)

    def _take_turn(self) -> None:
        """On the loop: use the turn if it is free, else have the thread wait for it."""
        try:
            taken = self._lock.try_take()
            if not taken:
                self._thread.submit(self._wait_for_turn)
        except BaseException as error:  # noqa: BLE001 - every caller is answered
            self._refuse(error)
            _raise_exit(error)
            return
        if taken:
            self._use_turn()

    def _wait_for_turn(self) -> None:
        """In the thread: take the turn and offer it to the loop."""
        try:
            taken = self._lock.take(PATIENCE_S)
        except BaseException as error:  # noqa: BLE001 - every caller is answered
            self._call(self._refuse, error)
            return
        if not taken:
            self._call(self._refuse, held_too_long(self._path))
            return
        offer = Offer(self._lock.release)
        self._call(self._accept, offer)
        offer.stand(self._missed)

    def _accept(self, offer: Offer) -> None:
        """On the loop: use the turn that the thread took, unless this comes too late."""
        if offer.accept():
            self._missed = 0
            self._use_turn()
        else:
            self._missed += 1
            self._take_turn()

    def _refuse(self, error: BaseException) -> None:
        """On the loop: no transaction can be begun for those who wait."""
        self._fail(self._all(), error)
        self._go_on()

    def _use_turn(self) -> None:
        """On the loop, in our turn: one transaction, which ends with the turn given up."""
        transaction = WriteTransaction()
        begun = False
        self._section.enter()
        try:
            with translated(self._path):
                begun = self._begin()
                if begun:
                    self._run_group(transaction.group, transaction.due)
        except BaseException as error:  # noqa: BLE001 - every caller is answered
            transaction.error = error
        if transaction.error is not None:
            self._end()
            self._conclude(transaction)
        elif not begun:
            self._end()
            self._loop.call_later(_BUSY_S, self._take_turn)
        elif self._commit_s < _SLOW_COMMIT_S:
            self._commit(transaction)
            self._conclude(transaction)
        else:
            self._commit_in_thread(transaction)

    def _begin(self) -> bool:
        """Begin a transaction; False while another program has the file, for as long as patience lasts."""
        self._room.look(short=bool(self._jobs) and self._jobs[0].repeated)
        self._witness.look()
        try:
            self._connection.execute("begin immediate")
        except apsw.BusyError:
            now = time.monotonic()
            self._busy_until = self._busy_until or now + PATIENCE_S
            if now >= self._busy_until:
                self._busy_until = None
                raise
            return False
        self._busy_until = None
        check_schema(self._connection, self._path)
        self._witness.advance()
        return True

    def _run_group(self, group: list[Job], due: set[str]) -> None:
        """Run what waits, until it is all done or the loop has been held long enough."""
        ends = time.perf_counter() + _GROUP_S
        while self._jobs and (not group or time.perf_counter() < ends):
            job = self._jobs.popleft()
            if job.future.cancelled():
                continue
            group.append(job)
            if not job.drains and self._room.refuses:
                job.error = self._room.refusal()
                continue
            self._run_job(job, due)

    def _run_job(self, job: Job, due: set[str]) -> None:
        """A savepoint copies every page that changes in it: only work that was beside a failure gets one."""
        unit = Unit(self._connection, self._clock())
        if job.apart:
            self._connection.execute("savepoint unit")
        try:
            with translated(self._path):
                job.result = job.work(unit)
            due |= unit.due
        except Exception as error:
            # SQLite ends the whole transaction by itself when the disk is full or fails.
            if isinstance(error, StoreFull) or not self._connection.in_transaction:
                raise
            if not job.apart:
                raise _WorkRaised from error
            job.error = error
            self._connection.execute("rollback to unit")
        if job.apart:
            self._connection.execute("release unit")

    def _commit_in_thread(self, transaction: WriteTransaction) -> None:
        def commit() -> None:
            self._commit(transaction)
            self._call(self._conclude, transaction)

        try:
            self._thread.submit(commit)
        except RuntimeError:
            # The interpreter is ending and starts no more threads.
            self._commit(transaction)
            self._conclude(transaction)

    def _commit(self, transaction: WriteTransaction) -> None:
        """Commit and give the turn up, in whichever thread."""
        try:
            took_s = self._commit_now()
            self._witness.committed()
            self._commit_s += _MEMORY * (took_s - self._commit_s)
        except BaseException as error:  # noqa: BLE001 - every caller is answered
            transaction.error = error
        finally:
            self._end()

    def _commit_now(self) -> float:
        began = time.perf_counter()
        with translated(self._path):
            self._connection.execute("commit")
        return time.perf_counter() - began

    def _end(self) -> None:
        """Undo what is not committed, and give the turn up."""
        try:
            if self._connection.in_transaction:
                self._connection.execute("rollback")
        except apsw.Error as error:
            _log.warning("%s: a failed transaction could not be undone: %s", self._path, error)
        finally:
            self._section.leave()
            with suppress(OSError):
                self._lock.release()

    def _conclude(self, transaction: WriteTransaction) -> None:
        """On the loop: answer the calls of a transaction that is over, and go on with the next."""
        try:
            match transaction.error:
                case None:
                    self._answer(transaction)
                case _WorkRaised():
                    self._run_apart(transaction.group)
                case StoreFull() as error if transaction.group:
                    self._drain(transaction.group, error)
                case error:
                    self._fail(transaction.group or self._all(), error)
        except BaseException as error:  # noqa: BLE001 - every caller is answered
            self._fail(transaction.group, error)
            _raise_exit(error)
        finally:
            self._go_on()
        if transaction.error is not None:
            _raise_exit(transaction.error)

    def _answer(self, transaction: WriteTransaction) -> None:
        for job in transaction.group:
            job.answer()
        try:
            self._committed(transaction.due)
        except Exception:  # noqa: BLE001 - a hint only: those who wait look again by themselves
            _log.exception("%s: waking those who wait failed", self._path)

    def _run_apart(self, group: list[Job]) -> None:
        """All of it was undone: each runs again, and undoes only itself."""
        for job in reversed(group):
            job.apart, job.error = True, None
            self._jobs.appendleft(job)

    def _drain(self, group: list[Job], error: StoreFull) -> None:
        """The disk is full: what drains the store tries once more, and again while the reserve frees room."""
        freed = any(job.drains for job in group) and self._room.give_back()
        again = [job.drains and (freed or not job.repeated) for job in group]
        self._fail(list(compress(group, map(not_, again))), error)
        for job in reversed(list(compress(group, again))):
            job.repeated, job.error = True, None
            self._jobs.appendleft(job)

    def _fail(self, group: list[Job], error: BaseException) -> None:
        failure = describe(error, self._path)
        for job in group:
            job.error = job.error or failure
            job.answer()

    def _all(self) -> list[Job]:
        """Everybody who waits: no transaction can be begun for them."""
        jobs = list(self._jobs)
        self._jobs.clear()
        return jobs

    def _go_on(self) -> None:
        if self._jobs:
            self._loop.call_soon(self._take_turn)
            return
        self._working = False
        if self._idle is not None and not self._idle.done():
            self._idle.set_result(None)

    def _call(self, function: Callable[..., None], argument: object) -> None:
        """Have the loop call a function; when it is closed, nobody waits for what it would say."""
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(function, argument)


def _raise_exit(error: BaseException) -> None:
    """What ends a program is answered like any failure, and then still ends the program."""
    if not isinstance(error, Exception):
        raise error
