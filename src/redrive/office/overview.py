"""How all stands, in one answer: queues, the last hour, causes, tenants, alerts, operations, workers, store.

`redrive status`, `redrive top` and the first page show it, some of them again and again: it costs what
queues, labels and live operations cost, never what messages cost. Causes are counted over all dead letters;
so they are kept for a while, and left out where counting takes too long. Known weaknesses: of the tenants it
knows those that have a label and those whose turn comes next; where many messages wait in SQLite, how many
of them are scheduled for later may be some seconds old.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from redrive.core.condition import Capacity, Description
from redrive.core.totals import MINUTE_MS, Flow, Minute, Occurrence
from redrive.office.alerts import Alerts
from redrive.office.documents.alerts import AlertDocument
from redrive.office.documents.overview import OverviewDocument, overview_document
from redrive.office.groups import Group, GroupBy, Groups
from redrive.office.index import TimeLimit
from redrive.office.metrics import Sums, counted_together
from redrive.office.operations import Operations, Snapshot
from redrive.office.queues import LiveWorker, QueueStatus, live_workers, statuses
from redrive.office.retention.notice import Notice, notices
from redrive.office.standings import TenantStanding, standings
from redrive.office.view import OfficeAnswer, View

if TYPE_CHECKING:
    from redrive.office.office import Office

MINUTES = 60
_GROUPS = 5
_OPERATIONS = 20
_TENANTS = 20
_IN_LINE = 20
_COUNTING_S = 1.0
_COUNTED_FOR_S = 10.0
_COUNTING_SHARE = 0.05


@dataclass(frozen=True, slots=True)
class StoreOverview:
    """How all stands. `minutes` are of all queues together, `last_hour` is a queue each, but for those that
    are `counted_together`, as OTHER.

    `processed` is what came to an end over all tenants; `groups` is None where counting takes too long, and
    lacks letters while the index is `behind`.
    """

    at: int
    described: Description
    capacity: Capacity
    queues: Sequence[QueueStatus]
    totals: Mapping[Flow, int]
    minutes: Sequence[Minute]
    last_hour: Sequence[Minute]
    counted_together: Sequence[str]
    processed: int
    tenants: Sequence[TenantStanding]
    groups: Sequence[Group] | None
    behind: bool
    alerts: Sequence[AlertDocument]
    operations: Sequence[Snapshot]
    workers: Sequence[LiveWorker]
    notices: Sequence[Notice]
    warnings: Sequence[str]

    def share(self, one: TenantStanding) -> float:
        """A tenant's part of all that came to an end."""
        return min(1.0, one.processed / self.processed) if self.processed else 0.0


class Overview:
    """The verb, for one actor. `files`: the actor may know where files lie on this machine."""

    def __init__(
        self,
        office: Office,
        view: View,
        groups: Groups,
        operations: Operations,
        alerts: Alerts,
        *,
        files: bool,
    ) -> None:
        self._store = office.store
        self._index = office.index
        self._folder = office.retention.folder
        self._view = view
        self._causes = _Causes(groups)
        self._operations = operations
        self._alerts = alerts
        self._files = files

    async def show(self) -> OfficeAnswer[StoreOverview, OverviewDocument]:
        """How all stands now; not for who is bound to a tenant."""
        self._view.demand_all()
        seen = await self._read()
        operations = [self._operations.document(one) for one in seen.operations]
        return OfficeAnswer(seen, overview_document(seen, operations, whole=self._files))

    async def _read(self) -> StoreOverview:
        store = self._store
        counts, workers, sums = await store.queues(), await live_workers(store), Sums(await store.totals())
        now = store.now()
        first_at = now - now % MINUTE_MS - (MINUTES - 1) * MINUTE_MS
        minutes = await store.minutes(None, first_at)
        dead = any(one.dlq for one in counts)
        return StoreOverview(
            at=now,
            described=await store.describe(),
            capacity=await store.capacity(),
            queues=statuses(counts, workers),
            totals={flow: sum(count for _, _, count in sums.of(flow)) for flow in Flow},
            minutes=_by_minute(minutes, first_at),
            last_hour=_by_queue(minutes, first_at),
            counted_together=counted_together(sums, counts),
            processed=sum(count for _, _, count in sums.of(Occurrence.PROCESSED)),
            tenants=_busiest(await standings(store, sums.tenants(), counts, in_line=_IN_LINE)),
            groups=await self._causes.largest() if dead else (),
            behind=dead and self._index.freshness.behind,
            alerts=await self._alerts.firing(),
            operations=await self._operations.running(_OPERATIONS),
            workers=workers,
            notices=await notices(store),
            warnings=_warnings(self._folder) if dead else (),
        )


class _Causes:
    """The largest groups, counted again only when that costs a small part of the time."""

    def __init__(self, groups: Groups) -> None:
        self._groups = groups
        self._found: Sequence[Group] | None = None
        self._until_s = 0.0

    async def largest(self) -> Sequence[Group] | None:
        began_s = time.monotonic()
        if began_s < self._until_s:
            return self._found
        try:
            self._found = await self._groups.list(GroupBy.FINGERPRINT, limit=_GROUPS, limit_s=_COUNTING_S)
        except TimeLimit:
            self._found = None
        ended_s = time.monotonic()
        self._until_s = ended_s + max(_COUNTED_FOR_S, (ended_s - began_s) / _COUNTING_SHARE)
        return self._found


def _by_minute(minutes: Sequence[Minute], first_at: int) -> list[Minute]:
    """Each minute of the hour over all queues, also where nothing happened."""
    sums = [Counter[str]() for _ in range(MINUTES)]
    for one in minutes:
        place = (one.at - first_at) // MINUTE_MS
        if 0 <= place < MINUTES:
            sums[place].update(_counts(one))
    return [Minute(first_at + place * MINUTE_MS, "", **found) for place, found in enumerate(sums)]


def _by_queue(minutes: Sequence[Minute], first_at: int) -> list[Minute]:
    """The hour as one, a queue each."""
    sums: dict[str, Counter[str]] = {}
    for one in minutes:
        sums.setdefault(one.queue, Counter()).update(_counts(one))
    return [Minute(first_at, queue, **found) for queue, found in sorted(sums.items())]


def _counts(minute: Minute) -> dict[str, int]:
    return {flow.value: getattr(minute, flow.value) for flow in Flow}


def _busiest(tenants: Sequence[TenantStanding]) -> list[TenantStanding]:
    """Those with the most to do now, then those that did the most."""
    return sorted(tenants, key=lambda one: (-one.waiting - one.in_flight, -one.processed, one.tenant))[
        :_TENANTS
    ]


def _warnings(folder: str | None) -> list[str]:
    """Where letters can leave to no archive, they stay: say so before there are too many."""
    if folder is None:
        return ["dead letters stay for ever: no folder for archives is set (retention.folder)"]
    if Path(folder).exists() and not os.access(folder, os.W_OK):
        return [f"dead letters cannot leave: {folder} cannot be written to (retention.folder)"]
    return []
