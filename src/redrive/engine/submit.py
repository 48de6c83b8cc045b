"""Submitting: many callers, few appends.

Entries that are ready at the same time go to the store in one call, so that they share one durable
write (group commit). Each caller waits for its own answer, which comes after that write. Where the store says
that several appends at once are faster, those who wait are shared out among them, so that the store works on
some while others are made.
A call that the store could not answer is repeated with the same ids, which is safe.
"""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, field

from redrive.core.errors import Conflict, InvalidMessage, StoreFull, StoreUnavailable
from redrive.core.message import Entry
from redrive.core.ports import APPEND_BYTES, APPEND_MESSAGES, Outbox, Receipt, Status
from redrive.engine.ownership import start_own
from redrive.telemetry.door import Telemetry
from redrive.telemetry.events import BatchAccepted, StoreAccepting, StoreRefusing

_WORTH_SHARING = 16
_PAUSES_S = (0.05, 0.2, 1.0)


@dataclass(slots=True, eq=False)
class _Group:
    entries: Sequence[Entry]
    size: int
    answer: asyncio.Future[list[Receipt]]


@dataclass(slots=True)
class _Line:
    """What waits to be appended to one queue."""

    groups: list[_Group] = field(default_factory=list)
    writers: set[asyncio.Task[None]] = field(default_factory=set)
    under_way: int = 0


class Submitter:
    """Collects the groups of one event loop and appends them."""

    def __init__(self, outbox: Outbox, telemetry: Telemetry) -> None:
        self._outbox = outbox
        self._telemetry = telemetry
        self._emit = telemetry.emit
        self._refused = False
        self._lines: dict[str, _Line] = {}

    async def submit(self, entries: Sequence[Entry]) -> list[Receipt]:
        """Append a group, all or nothing. Raises Conflict, InvalidMessage or a StoreError."""
        if not entries:
            return []
        if self._telemetry.traces is None:
            return await self._submit(entries)
        with self._telemetry.traces.submitting(entries) as span:
            receipts = await self._submit(span.entries)
            span.answer(receipts)
            return receipts

    async def _submit(self, entries: Sequence[Entry]) -> list[Receipt]:
        size = sum(len(entry.message.body) for entry in entries)
        if len(entries) > APPEND_MESSAGES or (len(entries) > 1 and size > APPEND_BYTES):
            raise InvalidMessage(
                f"a batch of {len(entries)} messages with {size:,} bytes: "
                f"at most {APPEND_MESSAGES:,} messages and {APPEND_BYTES:,} bytes together; split it"
            )
        group = _Group(entries, size, asyncio.get_running_loop().create_future())
        line = self._lines.setdefault(entries[0].message.queue, _Line())
        line.groups.append(group)
        if len(line.writers) < self._outbox.appends_at_once:
            line.writers.add(start_own(self._write(line), "redrive-submit"))
        receipts = await group.answer
        _refuse_conflicts(entries, receipts)
        return receipts

    async def close(self) -> None:
        """Wait for what is under way."""
        writers = [writer for line in self._lines.values() for writer in line.writers]
        if writers:
            await asyncio.wait(writers)

    async def _write(self, line: _Line) -> None:
        try:
            while line.groups:
                await self._append_some(line)
        finally:
            line.writers = {writer for writer in line.writers if writer is not asyncio.current_task()}

    async def _append_some(self, line: _Line) -> None:
        free = self._outbox.appends_at_once - line.under_way
        few = len(line.groups) < _WORTH_SHARING
        groups = _take(line.groups, len(line.groups) if few else math.ceil(len(line.groups) / free))
        line.under_way += 1
        try:
            await self._append(groups)
        finally:
            line.under_way -= 1

    async def _append(self, groups: list[_Group]) -> None:
        try:
            answers = await self._append_patiently([group.entries for group in groups])
            self._tell(None)
            self._count(groups[0].entries[0].message.queue, answers)
        except InvalidMessage as error:
            await self._append_singly(groups, error)
        except BaseException as error:
            for group in groups:
                if not group.answer.done():
                    group.answer.set_exception(_own(error))
            if not isinstance(error, Exception):
                raise
        else:
            for group, receipts in zip(groups, answers, strict=True):
                if not group.answer.done():
                    group.answer.set_result(receipts)

    def _count(self, queue: str, answers: list[list[Receipt]]) -> None:
        count = sum(receipt.status is Status.ACCEPTED for receipts in answers for receipt in receipts)
        if count:
            self._emit(BatchAccepted(queue, count))

    async def _append_singly(self, groups: list[_Group], error: InvalidMessage) -> None:
        """A group that the store cannot take is refused alone, not with its neighbours."""
        for group in groups:
            if len(groups) > 1:
                await self._append([group])
            elif not group.answer.done():
                group.answer.set_exception(error)

    async def _append_patiently(self, groups: list[Sequence[Entry]]) -> list[list[Receipt]]:
        for pause_s in _PAUSES_S:
            try:
                return await self._outbox.append(groups)
            except StoreFull as error:
                self._tell(error)
                raise
            except StoreUnavailable:
                await asyncio.sleep(pause_s * random.uniform(0.5, 1.0))  # noqa: S311 - spreads load
        return await self._outbox.append(groups)

    def _tell(self, refusal: StoreFull | None) -> None:
        """Say once that the store refuses, and once that it takes messages again."""
        if (refusal is not None) != self._refused:
            self._refused = refusal is not None
            self._emit(StoreAccepting() if refusal is None else StoreRefusing(str(refusal)))


def _take(groups: list[_Group], most: int) -> list[_Group]:
    """The longest run of waiting groups that one append may carry, `most` of them; at least one."""
    count, size, taken = 0, 0, 0
    for group in groups[:most]:
        count += len(group.entries)
        size += group.size
        if taken and (count > APPEND_MESSAGES or size > APPEND_BYTES):
            break
        taken += 1
    run = groups[:taken]
    del groups[:taken]
    return run


def _own(error: BaseException) -> BaseException:
    """An exception a caller: a shared one would collect the tracebacks of all of them."""
    if isinstance(error, StoreUnavailable):
        own = type(error)(*error.args)
        own.__cause__ = error
        return own
    return error


def _refuse_conflicts(entries: Sequence[Entry], receipts: Sequence[Receipt]) -> None:
    for index, (entry, receipt) in enumerate(zip(entries, receipts, strict=True)):
        if receipt.status is Status.CONFLICT:
            key = entry.message.dedupe if receipt.differs is None else None
            raise Conflict(key, receipt.id, index if len(entries) > 1 else None, differs=receipt.differs)
