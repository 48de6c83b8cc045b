"""What the process that watches remembers from one look to the next, because no store has it.

How long a message has run, which lanes are held, which groups are new. It begins anew with the next process:
an alert may fire later by it, and what fires is not taken for over because its beginning was not seen. Known
weakness: of a queue 1,000 running messages are looked at, and of all lanes 5,000 a look, the others in the
next.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass

from redrive.core.errors import VersionConflict
from redrive.core.lanes import Lane, LaneState
from redrive.core.letters import Listed, MessagePhase
from redrive.core.ports import PAGE
from redrive.office.alerts.look import Look
from redrive.office.filters import Filter
from redrive.office.filters.terms import Comparison, Dated, MomentField
from redrive.office.groups.counts import Counts, GroupBy, TrendWindow, count_groups
from redrive.office.index import Index
from redrive.office.ports import OfficeStore

KNOWN_GROUP_RECORDS = "alert_group"
_FIRST_LOOK = "*"
_GROUPS = 1_000
_GROUPS_REMEMBERED = 5_000
_GROUP_KEEP_S = 30 * 86_400.0
_COUNTED_FOR_MS = 300_000
_RUNNING_PAGES = 2
_LANE_PAGES = 10
_AWAY_MS = 300_000
"""Longer between two looks, and another process may have watched."""


@dataclass(frozen=True, slots=True)
class RunningAttempt:
    """One attempt of a message."""

    queue: str
    id: str
    attempts: int
    generation: int


@dataclass(frozen=True, slots=True)
class OldestAttempt:
    """The attempt of a queue that is known to have run for the longest, since `began_at`; `partial`: one of
    the queue may have run for longer, since its beginning was not seen."""

    id: str
    began_at: int
    partial: bool


class RunningAttempts:
    """Since when attempts have been seen to run, and which of them ran when nobody had looked for a while."""

    def __init__(self, store: OfficeStore) -> None:
        self._store = store
        self._began: dict[RunningAttempt, int] = {}
        self._unseen: set[RunningAttempt] = set()
        self._looked_at: int | None = None

    async def oldest(self, look: Look) -> dict[str, OldestAttempt]:
        """Of each queue with running messages."""
        running = {
            RunningAttempt(one.queue, one.id, one.attempts, one.generation)
            for counts in await look.queues()
            if counts.processing
            for one in await self._running(counts.queue)
        }
        away = self._looked_at is None or look.now - self._looked_at > _AWAY_MS
        new = running - self._began.keys() if away else set()
        self._unseen = (self._unseen & running) | new
        self._began = {one: self._began.get(one, look.now) for one in running}
        self._looked_at = look.now
        return self._by_queue()

    def _by_queue(self) -> dict[str, OldestAttempt]:
        partial = {one.queue for one in self._unseen}
        found: dict[str, OldestAttempt] = {}
        for one, began_at in self._began.items():
            if one.queue not in found or began_at < found[one.queue].began_at:
                found[one.queue] = OldestAttempt(one.id, began_at, one.queue in partial)
        return found

    async def _running(self, queue: str) -> list[Listed]:
        found: list[Listed] = []
        after = None
        for _ in range(_RUNNING_PAGES):
            page = await self._store.messages(queue, MessagePhase.RUNNING, after=after, limit=PAGE)
            found += page.messages
            after = page.cursor
            if after is None:
                break
        return found


class HeldLanes:
    """The lanes that were found held, and where the search goes on."""

    def __init__(self, store: OfficeStore) -> None:
        self._store = store
        self._known: dict[str, set[str]] = {}
        self._place: tuple[str, str | None] = ("", None)

    async def every(self, look: Look, told: Iterable[tuple[str, str]]) -> list[Lane]:
        """Those that are still held of what was known here or told before, with those found now."""
        for queue, tenant in told:
            self._known.setdefault(queue, set()).add(tenant)
        await self._search([one.queue for one in await look.queues()])
        found: list[Lane] = []
        for queue, tenants in self._known.items():
            lanes = await self._store.lanes_of(queue, sorted(tenants)) if tenants else []
            held = [lane for lane in lanes if lane.state is LaneState.HELD]
            self._known[queue] = {lane.tenant for lane in held}
            found += held
        return found

    async def _search(self, queues: list[str]) -> None:
        """Note the held ones among the lanes that come next, each at most once."""
        place, after = self._place
        line = [*(one for one in queues if one >= place), *(one for one in queues if one < place)]
        if line[:1] != [place]:
            after = None
        for _ in range(_LANE_PAGES):
            if not line:
                break
            page = await self._store.lanes(line[0], after=after, limit=PAGE)
            held = {lane.tenant for lane in page if lane.state is LaneState.HELD}
            self._known.setdefault(line[0], set()).update(held)
            after = page[-1].tenant if len(page) == PAGE else None
            if after is None:
                line.pop(0)
        self._place = (line[0], after) if line else ("", None)


@dataclass(frozen=True, slots=True)
class _Counted:
    """The groups as they were when so many letters were dead."""

    dead: int
    until_at: int
    groups: list[Counts]


class NewGroups:
    """When each group was first seen, which the store remembers for a month after it was last seen."""

    def __init__(self, store: OfficeStore, index: Index) -> None:
        self._store = store
        self._index = index
        self._counted: _Counted | None = None
        self._seen: OrderedDict[str, int] = OrderedDict()

    async def within(self, look: Look, window_s: float) -> list[Counts]:
        """The groups that were first seen within the window; what was there at the very first look is old."""
        dead = sum(one.dlq for one in await look.queues())
        if dead:
            await look.know_letters()
        first = await self._store.get_record(KNOWN_GROUP_RECORDS, _FIRST_LOOK) is None
        since_at = look.now - round(1000 * window_s)
        groups = await self._groups(look, dead, 0 if first else since_at) if dead else []
        found = [
            one for one in groups if await self._first_seen(one.key, 0 if first else look.now) > since_at
        ]
        if first:
            await self._store.put_record(KNOWN_GROUP_RECORDS, _FIRST_LOOK, {"at": look.now}, expected=None)
        return found

    async def _groups(self, look: Look, dead: int, since_at: int) -> list[Counts]:
        """The groups of what died since; counted anew when another number is dead, or after a while."""
        if self._counted is None or self._counted.dead != dead or look.now >= self._counted.until_at:
            asked = Filter((Dated(MomentField.MOVED, Comparison.AT_LEAST, since_at),))
            condition, window = self._index.compile(asked, None), TrendWindow(look.now)
            groups = await self._index.read(
                lambda db: count_groups(db, GroupBy.FINGERPRINT, condition, window, _GROUPS)
            )
            self._counted = _Counted(dead, look.now + _COUNTED_FOR_MS, groups)
        return self._counted.groups

    async def _first_seen(self, key: str, now: int) -> int:
        if key not in self._seen:
            self._seen[key] = await self._remember(key, now)
            if len(self._seen) > _GROUPS_REMEMBERED:
                self._seen.popitem(last=False)
        return self._seen[key]

    async def _remember(self, key: str, now: int) -> int:
        record = await self._store.get_record(KNOWN_GROUP_RECORDS, f"={key}")
        seen_at = now if record is None else int(record.document["at"])
        version = 0 if record is None else record.version
        with suppress(VersionConflict):
            await self._store.put_record(
                KNOWN_GROUP_RECORDS, f"={key}", {"at": seen_at}, expected=version, ttl_s=_GROUP_KEEP_S
            )
        return seen_at
