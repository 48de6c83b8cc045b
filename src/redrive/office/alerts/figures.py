"""The figures that rules watch, read from the store: for each subject one reading.

Bounced letters are outside: an address that is refused is nobody's failure. What is said of a message or a
lane is redacted.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from msgspec.structs import replace

from redrive.core.alerts import AlertFigure, AlertRule, AlertScope, Reading
from redrive.core.failure import clip
from redrive.core.lanes import Lane, LaneState
from redrive.core.redaction import printable, redact
from redrive.core.totals import LABEL_LIMITS, OTHER, LabelKind
from redrive.core.verdict import Reason
from redrive.office.alerts.growth import Handovers, Rejections
from redrive.office.alerts.look import Look, figures_of
from redrive.office.alerts.past import Past, add_up
from redrive.office.alerts.records import Alert
from redrive.office.alerts.seen import HeldLanes, NewGroups, RunningAttempts
from redrive.office.alerts.wording import habit
from redrive.office.groups.counts import Counts
from redrive.office.index import Index
from redrive.office.ports import OfficeStore
from redrive.office.retention.notice import Notice

_BY_THE_MINUTE = frozenset({AlertFigure.DLQ_SHARE, AlertFigure.DEAD, AlertFigure.FAILURE_SHARE})
_TOGETHER = f"the queues beyond the first {LABEL_LIMITS[LabelKind.QUEUE]}, together"
_SHOWN = 200
_HOUR_S = 3_600.0
_TRIED_MS = 120_000
"""Mails that wait for a relay are tried again at least every 90 seconds."""


class FigureReader:
    """Reads figures of one store."""

    def __init__(self, store: OfficeStore, index: Index) -> None:
        self._past = Past(store)
        self._running = RunningAttempts(store)
        self._held = HeldLanes(store)
        # By rule: each remembers for as long as its own window is.
        self._rejections: defaultdict[str, Rejections] = defaultdict(Rejections)
        self._handovers: defaultdict[str, Handovers] = defaultdict(Handovers)
        self._new_groups: defaultdict[str, NewGroups] = defaultdict(lambda: NewGroups(store, index))

    async def read(self, rule: AlertRule, look: Look, told: Iterable[Alert] = ()) -> list[Reading]:
        """The readings of a rule, of which these alerts fire or are about to; a subject that is not among the
        readings is at 0. Unread where nothing can be said."""
        if rule.metric in _BY_THE_MINUTE:
            return await self._flows(rule, look)
        if rule.scope is AlertScope.QUEUE:
            return await self._queues(rule, look)
        if rule.scope is AlertScope.STORE:
            return [await self._store_wide(rule, look)]
        match rule.metric:
            case AlertFigure.LANE_HELD:
                return [_held(lane) for lane in await self._held.every(look, _lanes_of(told))]
            case AlertFigure.NEW_GROUP:
                return [_group(one) for one in await self._new_groups[rule.name].within(look, rule.window_s)]
            case AlertFigure.DLQ:
                return await self._tenants(look)
        raise _unread(rule)

    async def _flows(self, rule: AlertRule, look: Look) -> list[Reading]:
        if rule.scope is AlertScope.STORE:
            return [await self._flow(rule, look, "", None)]
        together = await look.together()
        names = {one.queue for one in together}
        each = [one.queue for one in await look.queues() if one.queue not in names]
        found = [await self._flow(rule, look, queue, (queue,)) for queue in each]
        if together:
            dead = tuple(one.queue for one in together if one.dlq)
            found.append(await self._flow(rule, look, OTHER, dead, _TOGETHER))
        return found

    async def _flow(
        self, rule: AlertRule, look: Look, subject: str, queues: tuple[str, ...] | None, detail: str = ""
    ) -> Reading:
        """What is counted under a label, "" for all of them; of these queues what bounced is left out."""
        minutes = [one for one in await look.minutes(rule.window_s) if subject in ("", one.queue)]
        total = add_up(minutes)
        spared = rule.metric is not AlertFigure.FAILURE_SHARE and total.dead
        bounced = await look.bounced(queues, rule.window_s) if spared else 0
        value, volume = total.figure(rule.metric, bounced)
        counted = None if rule.metric is AlertFigure.DEAD else volume
        reading = Reading(subject, value, counted, detail=detail)
        return await self._compared(rule, reading) if rule.unusual else reading

    async def _compared(self, rule: AlertRule, reading: Reading) -> Reading:
        """With what was usual as its limit; without enough of a past, nothing is unusual."""
        counted = rule.metric in _BY_THE_MINUTE
        if counted:
            known = await self._past.counted(rule, reading.subject)
        else:
            known = await self._past.sampled(rule, reading.subject, reading.value)
        if known is None:
            return replace(reading, limit=float("inf"))
        width_s = rule.window_s if counted else _HOUR_S
        said = "; ".join(filter(None, (habit(rule, known, width_s), reading.detail)))
        return replace(reading, limit=known.limit, detail=said)

    async def _store_wide(self, rule: AlertRule, look: Look) -> Reading:
        match rule.metric:
            case AlertFigure.DLQ:
                return Reading("", await self._dead(look))
            case AlertFigure.RETRY_BACKLOG:
                return Reading("", sum(one.retry_scheduled for one in await look.queues()))
            case AlertFigure.STORE_SHARE:
                room = await look.capacity()
                return Reading("", room.used_bytes / room.limit_bytes if room.limit_bytes else 0.0)
            case AlertFigure.STORE_REFUSING:
                room = await look.capacity()
                return Reading("", 0.0 if room.accepts else 1.0, detail="" if room.accepts else room.note)
            case AlertFigure.REJECTED_CONNECTIONS:
                rejected, partial = await self._rejections[rule.name].within(look, rule.window_s)
                return Reading("", rejected, partial=partial)
            case AlertFigure.RELAY_LOST:
                return await _lost_relay(look)
            case AlertFigure.BROKER_LOST:
                said = await look.described()
                return Reading("", float(said.lost), detail=_plain(said.meaning) if said.lost else "")
            case AlertFigure.OPERATIONS_HALTED:
                halted = await look.halted()
                detail = f"redrive ops show {halted[0].id}" if halted else ""
                return Reading("", len(halted), detail=detail)
        raise _unread(rule)

    async def _dead(self, look: Look) -> int:
        if not any(one.dlq for one in await look.queues()):
            return 0
        return sum(part.count for part in await look.parts())

    async def _tenants(self, look: Look) -> list[Reading]:
        """Each tenant's dead letters."""
        counts: dict[str, int] = {}
        if any(one.dlq for one in await look.queues()):
            for part in await look.parts():
                counts[part.tenant] = counts.get(part.tenant, 0) + part.count
        return [Reading(tenant, count, tenant=tenant) for tenant, count in counts.items()]

    async def _queues(self, rule: AlertRule, look: Look) -> list[Reading]:
        match rule.metric:
            case AlertFigure.DLQ:
                return [
                    Reading(one.queue, sum(part.count for part in await look.parts(one.queue)))
                    for one in await look.queues()
                    if one.dlq
                ]
            case AlertFigure.RETRY_BACKLOG:
                return [Reading(one.queue, one.retry_scheduled) for one in await look.queues()]
            case AlertFigure.UNSERVED:
                return await _unserved(look)
            case AlertFigure.WAITING_S:
                return await self._waiting(rule, look)
            case AlertFigure.HANDOVER_S:
                return await self._handover(rule, look)
            case AlertFigure.PROCESSING_S:
                return await self._processing(look)
            case AlertFigure.LETTERS_LEAVING:
                return [_leaving(one) for one in await look.leaving() if one.leaving and not one.problem]
            case AlertFigure.LETTERS_STUCK:
                return [_leaving(one) for one in await look.leaving() if one.leaving and one.problem]
        raise _unread(rule)

    async def _waiting(self, rule: AlertRule, look: Look) -> list[Reading]:
        found = []
        for one in await look.queues():
            due_at = one.oldest_due_at if one.state is LaneState.RUNNING else None
            waited_s = 0.0 if due_at is None else max(0.0, (look.now - due_at) / 1000)
            reading = Reading(one.queue, waited_s)
            found.append(await self._compared(rule, reading) if rule.unusual else reading)
        return found

    async def _handover(self, rule: AlertRule, look: Look) -> list[Reading]:
        """The mean time from due to a worker's hands."""
        handed, partial = await self._handovers[rule.name].within(look, rule.window_s)
        together, found = await look.together(), []
        for queue, (count, mean_s) in handed.items():
            detail = _TOGETHER if together and queue == OTHER else ""
            reading = Reading(queue, mean_s, count, detail=detail, partial=partial)
            found.append(await self._compared(rule, reading) if rule.unusual else reading)
        return found

    async def _processing(self, look: Look) -> list[Reading]:
        """How long the oldest attempt has run; what a handler's deadline allows is not too long."""
        deadlines = await _deadlines_s(look)
        return [
            Reading(
                queue,
                (look.now - one.began_at) / 1000,
                limit=deadlines.get(queue),
                detail=f"redrive show {one.id}",
                partial=one.partial,
            )
            for queue, one in (await self._running.oldest(look)).items()
        ]


async def _unserved(look: Look) -> list[Reading]:
    """What is relayed is served by whoever looks."""
    served = {queue for worker in await look.workers() for queue in worker.document["queues"]}
    return [
        Reading(one.queue, one.pending)
        for one in await look.queues()
        if one.pending
        and one.queue not in served
        and one.state is LaneState.RUNNING
        and not (one.consumers or one.relayed)
    ]


async def _lost_relay(look: Look) -> Reading:
    """How many workers say so; that the relay answers, one says that had the time to try."""
    mailing = [worker for worker in await look.workers() if "relay" in figures_of(worker)]
    lost = [figures_of(worker)["relay"] for worker in mailing if figures_of(worker)["relay"]]
    detail = _plain(f"{lost[0]['name']}: {lost[0]['problem']}") if lost else ""
    tried = any(look.now - int(worker.document.get("startedAt", 0)) >= _TRIED_MS for worker in mailing)
    return Reading("", len(lost), detail=detail, partial=not tried)


async def _deadlines_s(look: Look) -> dict[str, float]:
    """How long a handler of each queue may run, as workers say."""
    said = [figures_of(worker).get("deadlinesS", {}) for worker in await look.workers()]
    return {queue: max(float(one[queue]) for one in said if queue in one) for each in said for queue in each}


def _unread(rule: AlertRule) -> ValueError:
    return ValueError(f"nobody reads {rule.metric} by {rule.scope}")


def _held(lane: Lane) -> Reading:
    return Reading(
        f"{lane.queue}/{lane.tenant}", 1, detail=_plain(lane.held_reason or ""), tenant=lane.tenant
    )


def _lanes_of(told: Iterable[Alert]) -> list[tuple[str, str]]:
    """The queue and the tenant of each lane that an alert is about."""
    return [(one.subject.removesuffix(f"/{one.tenant}"), one.tenant) for one in told if one.tenant]


def _leaving(notice: Notice) -> Reading:
    return Reading(notice.queue, notice.leaving, detail=_plain(notice.sentences()[0]))


def _group(group: Counts) -> Reading:
    """A new group; one whose addresses are refused is none to look at."""
    sample = group.sample
    code = f" [{sample.code}]" if sample.code else ""
    count = 0 if sample.reason == Reason.BOUNCED else group.count
    said = _plain(f"{', '.join(group.queues)} {sample.reason}: {sample.failure}{code}")
    return Reading(group.key, count, count, detail=said)


def _plain(text: str) -> str:
    return clip(redact(printable(text)), _SHOWN)
