"""Duties that every worker does for the store all the time, in pages: reclaim, cleanup, announce.

Each is a step for the runner. Reclaimed messages are judged and settled like any attempt; a live lease
is never touched, also at start-up.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Sequence
from typing import Protocol

from redrive.core.message import Delivery
from redrive.core.ports import PAGE, Cleanup, Source, Upkeep
from redrive.core.records import Document
from redrive.core.retry import RetryPolicy
from redrive.core.settings import FinishedSettings, RetentionSettings
from redrive.core.store import WORKER_RECORDS, Records
from redrive.engine.failures import lapsed
from redrive.engine.ids import new_token
from redrive.engine.ruling import apply, rule
from redrive.telemetry.door import Telemetry
from redrive.telemetry.events import CleanedUp

_RECLAIM_SHARE = 1 / 15
_SHORTEST_RECLAIM_S, _LONGEST_RECLAIM_S = 0.9, 2.0
_LISTED_S = 5.0
_CLEANUP_S = 30.0
_ANNOUNCE_S = 5.0


class Kept(Source, Upkeep, Protocol):
    """What the duties need of a store."""


class Housekeeping:
    """The duties of one process, which serves `queues`."""

    def __init__(
        self,
        store: Kept,
        telemetry: Telemetry,
        policy: Callable[[str], RetryPolicy],
        finished: FinishedSettings,
        retention: RetentionSettings,
        lease_s: float,
        queues: Sequence[str] = (),
    ) -> None:
        self._store = store
        self._queues = frozenset(queues)
        self._telemetry = telemetry
        self._policy = policy
        self._finished = finished
        self._retention = retention
        self._lease_s = lease_s
        self._reclaim_s = min(_LONGEST_RECLAIM_S, max(_SHORTEST_RECLAIM_S, lease_s * _RECLAIM_SHARE))
        self._unanswered: dict[str, str] = {}
        self._listed: Sequence[str] = ()
        self._listed_until_s = 0.0

    async def reclaim(self) -> float:
        """Take over what nobody holds any more, of every queue, and settle it.

        The queues that are served here are among them, even if the store has lost the list of its queues.
        What was taken over and not settled is asked for again under its token, not left to lapse.
        """
        more = False
        for queue in sorted(self._queues.union(await self._all_queues())):
            token = self._unanswered.setdefault(queue, new_token())
            taken = await self._store.reclaim(queue, token, self._lease_s, PAGE)
            await self._settle(taken)
            del self._unanswered[queue]
            more = more or len(taken) == PAGE
        return 0.0 if more else self._reclaim_s

    async def _all_queues(self) -> Sequence[str]:
        """Read now and then: the list grows seldom, and an idle worker should ask for little."""
        if time.monotonic() >= self._listed_until_s:
            self._listed = await self._store.queue_names()
            self._listed_until_s = time.monotonic() + _LISTED_S
        return self._listed

    async def cleanup(self) -> float:
        """Remove finished records that have passed their age or number, and what was discarded long ago."""
        now, keep_s = self._store.now(), self._retention.keep_s
        finished_before_at = now - round(self._finished.keep_s * 1000)
        discarded_before_at = 0 if keep_s is None else now - round(keep_s * 1000)
        count = await self._store.cleanup(
            Cleanup(finished_before_at, self._finished.keep, discarded_before_at=discarded_before_at)
        )
        if count:
            self._telemetry.emit(CleanedUp(count))
        return 0.05 if count >= PAGE else _CLEANUP_S

    async def _settle(self, deliveries: list[Delivery]) -> None:
        if not deliveries:
            return
        now = self._store.now()
        rulings = [
            rule(delivery, lapsed(delivery, now), self._policy(delivery.message.queue), now)
            for delivery in deliveries
        ]
        await apply(self._store, rulings, self._telemetry.emit_all)


class Announcement:
    """A worker's record: who is alive and which queues it serves, so that `status` can say `no handler`."""

    def __init__(
        self,
        records: Records,
        worker: str,
        queues: tuple[str, ...],
        now: int,
        figures: Callable[[], Document] = dict,
    ) -> None:
        self._records = records
        self._worker = worker
        self._figures = figures
        self._document: Document = {
            "queues": list(queues),
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "startedAt": now,
        }

    async def renew(self) -> float:
        """Say that we are alive, for three times as long as until we say it again."""
        await self._records.put_record(
            WORKER_RECORDS,
            self._worker,
            {**self._document, "figures": self._figures()},
            expected=None,
            ttl_s=3 * _ANNOUNCE_S,
        )
        return _ANNOUNCE_S

    async def withdraw(self) -> None:
        """Say that we are gone."""
        await self._records.delete_record(WORKER_RECORDS, self._worker, expected=None)
