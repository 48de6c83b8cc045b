"""The past of figures, for rules that ask what is unusual.

What is counted by the minute has its past in the store's totals. Of a figure that is only read, the highest
of each hour is kept here, in a record a queue; a process that dies takes at most the present hour with it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from redrive.core.alerts import AlertFigure, AlertRule, AlertScope
from redrive.core.totals import MINUTES_KEPT_MS, Flow, Minute
from redrive.core.usual import Usual, usual
from redrive.office.ports import OfficeStore

PAST_RECORDS = "alert_past"
_HOUR_MS = 3_600_000
_HOURS = 7 * 24
_KEEP_S = 8 * 86_400.0


@dataclass(slots=True)
class FlowSum:
    """What became of messages, added up."""

    done: int = 0
    retried: int = 0
    dead: int = 0

    def add(self, more: Minute | FlowSum) -> None:
        self.done += more.done
        self.retried += more.retried
        self.dead += more.dead

    def figure(self, metric: AlertFigure, bounced: int = 0) -> tuple[float, int]:
        """A counted figure and how many it was made of; what bounced is nobody's failure but the address'."""
        dead = max(0, self.dead - bounced)
        match metric:
            case AlertFigure.DEAD:
                return dead, self.done + self.dead
            case AlertFigure.DLQ_SHARE:
                ended = self.done + self.dead
                return dead / max(1, ended), ended
            case _:
                attempts = self.done + self.retried + self.dead
                return (self.retried + self.dead) / max(1, attempts), attempts


def add_up(minutes: Iterable[Minute]) -> FlowSum:
    """All of these."""
    total = FlowSum()
    for minute in minutes:
        total.add(minute)
    return total


@dataclass(frozen=True, slots=True)
class _Known:
    slot: int
    usual: Usual | None


class Past:
    """What was usual, worked out once a window and remembered until the next."""

    def __init__(self, store: OfficeStore) -> None:
        self._store = store
        self._known: dict[tuple[str, str], _Known] = {}
        self._sums: dict[tuple[str, int], tuple[int, Mapping[int, FlowSum]]] = {}
        self._highest: dict[tuple[str, str], tuple[int, float]] = {}

    async def counted(self, rule: AlertRule, subject: str) -> Usual | None:
        """What a counted figure usually was in windows like the rule's."""
        slot = self._store.now() // round(1000 * rule.window_s)
        known = self._known.get((rule.name, subject))
        if known is None or known.slot != slot:
            past = await self._windows(rule, subject)
            known = self._known[rule.name, subject] = _Known(slot, usual(past, _grain(rule.metric)))
        return known.usual

    async def sampled(self, rule: AlertRule, subject: str, value: float) -> Usual | None:
        """What the highest of an hour usually was; the present hour is noted and no part of it."""
        key, hour = (rule.name, subject), self._store.now() // _HOUR_MS
        began, highest = self._highest.get(key, (hour, 0.0))
        if began != hour:
            await self._keep(key, began, highest)
            highest = 0.0
        self._highest[key] = (hour, max(highest, value))
        known = self._known.get(key)
        if known is None or known.slot != hour:
            past = [high for slot, high in await self._kept(key) if slot < hour]
            known = self._known[key] = _Known(hour, usual(past, _grain(rule.metric)))
        return known.usual

    async def _windows(self, rule: AlertRule, subject: str) -> list[float]:
        """The figure in each past window, from the first minute that is known on."""
        names = {subject} if rule.scope is AlertScope.QUEUE else await self._counted_queues()
        sums: dict[int, FlowSum] = defaultdict(FlowSum)
        for name in names:
            for window, flow in (await self._queue_sums(name, round(1000 * rule.window_s))).items():
                sums[window].add(flow)
        if not sums:
            return []
        figures = [sums[window].figure(rule.metric) for window in range(1, max(sums) + 1)]
        counts = rule.metric is AlertFigure.DEAD
        return [value for value, volume in figures if counts or volume >= rule.least]

    async def _counted_queues(self) -> set[str]:
        """The queues that messages were counted for; those beyond the last label are one."""
        return {one.label for one in await self._store.totals() if isinstance(one.name, Flow)}

    async def _queue_sums(self, queue: str, width_ms: int) -> Mapping[int, FlowSum]:
        """What became of a queue's messages in each past window; a week of minutes is read once for all
        rules, a queue at a time."""
        now = self._store.now()
        slot, key = now // width_ms, (queue, width_ms)
        if key not in self._sums or self._sums[key][0] != slot:
            sums: dict[int, FlowSum] = defaultdict(FlowSum)
            for minute in await self._store.minutes(queue, now - MINUTES_KEPT_MS):
                sums[(now - minute.at) // width_ms].add(minute)
            self._sums[key] = slot, sums
        return self._sums[key][1]

    async def _kept(self, key: tuple[str, str]) -> list[tuple[int, float]]:
        record = await self._store.get_record(PAST_RECORDS, "/".join(key))
        return [] if record is None else [(int(slot), float(high)) for slot, high in record.document["hours"]]

    async def _keep(self, key: tuple[str, str], hour: int, highest: float) -> None:
        before = [one for one in await self._kept(key) if one[0] != hour]
        document = {"hours": [list(one) for one in (*before[1 - _HOURS :], (hour, highest))]}
        await self._store.put_record(PAST_RECORDS, "/".join(key), document, expected=None, ttl_s=_KEEP_S)


def _grain(metric: AlertFigure) -> float:
    """The least deviation that counts: a message or a second, a tenth of a second, a hundredth."""
    if metric is AlertFigure.HANDOVER_S:
        return 0.1
    return 0.01 if metric in (AlertFigure.DLQ_SHARE, AlertFigure.FAILURE_SHARE) else 1.0
