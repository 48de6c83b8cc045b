"""Bugs planted into the child process, and instants at which it kills itself.

A plant shows that the checks are good: with it they must fail. Each one names the text it changes and
refuses to run when that text is gone, so a plant cannot quietly become harmless.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from itertools import count
from typing import Any

from redrive.core.message import Delivery, Entry
from redrive.core.ports import Claimed, Receipt
from redrive.core.verdict import Done, Settlement
from redrive.engine.settling import rule
from redrive.engine.station import Station
from redrive.stores.sqlite import SqliteStore, append, claiming, settle, upkeep
from redrive.stores.sqlite.lanes import LaneBook
from redrive.stores.sqlite.writer import Step, Writer

_LATE_S = 0.5


def die(point: str) -> None:
    """SIGKILL this process at a point written as `before:settle:2`; `after:commit:1:SIGSTOP` stops it.

    The verb is a method of the store, or `commit`. After a claim or reclaim, one that got nothing is not
    counted.
    """
    moment, verb, number, *others = point.split(":")
    signal_number = signal.Signals[others[0]] if others else signal.SIGKILL
    calls = count(1)

    def signal_at_number() -> None:
        if next(calls) == int(number):
            os.kill(os.getpid(), signal_number)

    if verb == "commit":
        _wrap_commit(moment, signal_at_number)
        return
    original = getattr(SqliteStore, verb)

    async def wrapped(self: SqliteStore, *arguments: Any, **named: Any) -> Any:
        if moment == "before":
            signal_at_number()
        result = await original(self, *arguments, **named)
        if moment == "after" and not _is_empty(result):
            signal_at_number()
        return result

    setattr(SqliteStore, verb, wrapped)


def _is_empty(result: object) -> bool:
    return result == [] or (isinstance(result, Claimed) and not result.deliveries)


def _wrap_commit(moment: str, signal_at_number: Callable[[], None]) -> None:
    original = Writer._commit_now

    def commit_now(self: Writer) -> float:
        if moment == "before":
            signal_at_number()
        took_s = original(self)
        if moment == "after":
            signal_at_number()
        return took_s

    _set(Writer, "_commit_now", commit_now)


def settle_without_token() -> None:
    """A settle moves the message whoever holds it."""
    for name in ("complete", "retry", "release", "bury"):
        _rewrite(settle, name, "and lease = ?2", "")
    original = settle._Settling._lease

    def lease(self: Any, settlement: Any) -> int:
        return original(self, settlement) or 0

    _set(settle._Settling, "_lease", lease)


def count_attempt_late() -> None:
    """The attempt is counted when it ends, not when it is handed out."""
    _rewrite(claiming, "take", "attempts = attempts + 1, ", "")
    _rewrite(claiming, "take", "expires_at, attempts,", "expires_at, attempts + 1,")
    for name in ("complete", "retry", "bury"):
        _rewrite(settle, name, "lease = null,", "attempts = attempts + 1, lease = null,")


def settle_before_handler() -> None:
    """The message is completed, then the handler runs."""

    async def attempt(self: Any, delivery: Delivery) -> None:
        self._settler.add(rule(delivery, Done(), self.served.policy, self._source.now()))
        await self._executor.run(self.served, delivery)

    _set(Station, "_attempt", attempt)


def accept_before_commit() -> None:
    """The submitter hears `accepted` before the durable write."""
    run_group, commit = Writer._run_group, Writer._commit

    def answer_early(self: Writer, group: list[Any], due: set[str]) -> None:
        run_group(self, group, due)
        for job in group:
            job.answer()

    async def commit_late(self: Writer) -> None:
        await asyncio.sleep(0.01)
        await commit(self)

    _set(Writer, "_run_group", answer_early)
    _set(Writer, "_commit", commit_late)


def dedupe_key_first() -> None:
    """The dedupe key is written in a step of its own, before the message."""
    original = SqliteStore.append

    async def key_then_message(self: SqliteStore, groups: Sequence[Sequence[Entry]]) -> list[list[Receipt]]:
        await self._write(lambda step: _take_keys(step, [entry for group in groups for entry in group]))
        plain = [
            [replace(entry, message=replace(entry.message, dedupe=None)) for entry in group]
            for group in groups
        ]
        return await original(self, plain)

    _set(SqliteStore, "append", key_then_message)


def _take_keys(step: Step, entries: Sequence[Entry]) -> None:
    messages = [entry.message for entry in entries if entry.message.dedupe is not None]
    book = LaneBook.named(step, entries[0].message.queue)
    keys = [
        (book.tenant(message.tenant).lane, message.dedupe, message.id, append.body_hash(message.body))
        for message in messages
    ]
    step.db.executemany(append.SQL["take_key"], keys)
    book.close()


def reclaim_live_leases() -> None:
    """A sweep takes over whatever is claimed, as if all other workers were dead."""
    _rewrite(upkeep, "overdue", "l.until_at <= ?2", "?2 > 0")
    _rewrite(upkeep, "ended_leases", "until_at <= ?", "? > 0")


def answer_settle_late() -> None:
    """No bug but a slow machine: a settle is answered well after its commit."""
    original = SqliteStore.settle

    async def settle_late(self: SqliteStore, settlements: Sequence[Settlement]) -> AbstractSet[str]:
        refused = await original(self, settlements)
        await asyncio.sleep(_LATE_S)
        return refused

    _set(SqliteStore, "settle", settle_late)


_PLANTS = (
    settle_without_token,
    count_attempt_late,
    settle_before_handler,
    accept_before_commit,
    dedupe_key_first,
    reclaim_live_leases,
    answer_settle_late,
)


def plant(name: str) -> None:
    """Plant the bug of this name into this process."""
    {each.__name__: each for each in _PLANTS}[name]()


def _rewrite(module: Any, name: str, before: str, after: str) -> None:
    statement: str = module.SQL[name]
    assert before in statement, f"{module.__name__}: {name} no longer says {before!r}, the plant is void"
    module.SQL = {**module.SQL, name: statement.replace(before, after)}


def _set(owner: type, name: str, value: object) -> None:
    assert hasattr(owner, name), f"{owner.__name__} has no {name} any more, the plant is void"
    setattr(owner, name, value)
