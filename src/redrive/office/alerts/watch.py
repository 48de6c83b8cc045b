"""The duty of one process: judge every rule, keep what changed, and send what no channel has taken.

Each rule is judged for each subject about twice a minute. The alert and its notices are written before
anything is sent. A figure that cannot be read leaves its alerts as they are; one that fails keeps no other
rule from being judged. Nothing here stands in the way of the work.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, assert_never

from msgspec.structs import replace

from redrive.core.alerts import AlertPhase, AlertRule, AlertState, AlertTransition, Reading, judge
from redrive.core.errors import StoreError
from redrive.office.alerts import records
from redrive.office.alerts.figures import FigureReader
from redrive.office.alerts.letters import LetterNotices
from redrive.office.alerts.look import Look, Unread
from redrive.office.alerts.records import LETTERS, Alert, AlertNotice, NoticeKind, Silence
from redrive.office.alerts.send import NoticeSender
from redrive.office.alerts.wording import sentence
from redrive.office.index import TimeLimit
from redrive.telemetry.events import AlertCleared, AlertFired, Event, LoopFailed

if TYPE_CHECKING:
    from redrive.office.office import Office

LOOK_S = 30.0
_FIRST_S = 10.0
"""A process that has just started lets its workers say first that they are there."""

_SOON_S = 1.0
_STORM, _STORM_MS = 10, 600_000
"""So many subjects of a rule are told of within so long."""

_RENEWED_MS = 120_000
"""What a firing alert says is renewed so seldom: a thousand of them are a thousand writes."""

_log = logging.getLogger("redrive")

Known = dict[str, dict[str, tuple[Alert, int]]]
"""The alerts that are remembered with their versions, by rule and subject."""


class AlertWatch:
    """The duty on one store."""

    def __init__(self, office: Office, emit: Callable[[Event], None] = lambda _: None) -> None:
        self._store = office.store
        self._index = office.index
        self._desk = office.alerting
        self._settings = office.alerting.settings
        self._emit = emit
        self._figures = FigureReader(office.store, office.index)
        self._letters = LetterNotices(office)
        self._sender = NoticeSender(office, emit)
        self._source: str | None = None
        self._unread: set[str] = set()
        self._look_at = office.store.now() + round(1000 * _FIRST_S)

    async def step(self) -> float:
        """Judge when it is time, send what is due; when to call again."""
        now = self._store.now()
        if now >= self._look_at:
            self._look_at = now + round(1000 * LOOK_S)
            await self.look()
        next_at = await self._sender.send()
        wake_at = self._look_at if next_at is None else min(self._look_at, next_at)
        return max(_SOON_S, min(LOOK_S, (wake_at - self._store.now()) / 1000))

    async def look(self) -> None:
        """Judge every rule once."""
        known: Known = {}
        async for alert, version in records.every_alert(self._store):
            known.setdefault(alert.rule, {})[alert.subject] = alert, version
        silenced = await records.silences(self._store)
        look = Look(self._store, self._index)
        for rule in self._settings.live_rules:
            await self._judge_rule(rule, known.pop(rule.name, {}), look, silenced)
        known.pop(LETTERS, None)
        for left in known.values():
            for alert, version in left.values():
                await self._withdraw(alert, version)
        await self._letters.look()

    async def _judge_rule(
        self,
        rule: AlertRule,
        known: Mapping[str, tuple[Alert, int]],
        look: Look,
        silenced: list[Silence],
    ) -> None:
        try:
            told = [alert for alert, _ in known.values() if alert.state.phase is not AlertPhase.QUIET]
            readings = {one.subject: one for one in await self._figures.read(rule, look, told)}
        except (TimeLimit, Unread) as error:
            self._note_unread(rule, error)
            return
        except StoreError:
            raise
        except Exception as error:  # noqa: BLE001 - one figure that fails must not silence the others
            self._emit(LoopFailed(f"alert {rule.name}", error))
            return
        fired = sum(look.now - alert.fired_at < _STORM_MS for alert, _ in known.values())
        for subject in {**readings, **known}:
            reading = readings.get(subject)
            alert, version = known.get(subject, (Alert(rule=rule.name, subject=subject), 0))
            quiet = any(one.covers(rule.name, subject) for one in silenced)
            state, transition = judge(rule, alert.state, reading, look.now, silenced=quiet)
            if AlertPhase.QUIET is state.phase is alert.state.phase:
                continue
            changed = self._seen(rule, alert, reading, state)
            if transition is AlertTransition.FIRES:
                fired += 1
                changed = self._bounded(changed, fired, look.now)
            await self._change(changed, alert, version, transition)

    def _note_unread(self, rule: AlertRule, error: TimeLimit | Unread) -> None:
        if rule.name not in self._unread:
            self._unread.add(rule.name)
            _log.warning("the alert %s is not judged: %s", rule.name, error)

    def _bounded(self, alert: Alert, number: int, now: int) -> Alert:
        """When one cause hits a thousand tenants, the usual channels hear of the first ones, and that there
        are more; each tenant's contacts hear of theirs."""
        if number > _STORM:
            own = self._settings.contacts.get(alert.tenant or "", ())
            return replace(alert, channels=tuple(name for name in alert.channels if name in own))
        more = "; there may be more: redrive alerts list" if number == _STORM else ""
        return replace(alert, text=alert.text + more, fired_at=now)

    def _seen(self, rule: AlertRule, alert: Alert, reading: Reading | None, state: AlertState) -> Alert:
        """The alert as it now stands."""
        now = self._store.now()
        if state.phase is AlertPhase.QUIET:
            return replace(alert, state=state, cleared_at=now if alert.firing else alert.cleared_at)
        changed = replace(alert, state=state, severity=rule.severity, runbook=rule.runbook, cleared_at=None)
        if reading is not None and not _says_more(alert, reading, now):
            text = sentence(rule, reading)
            changed = replace(changed, text=text, value=reading.value, tenant=reading.tenant, seen_at=now)
        if state.phase is AlertPhase.FIRING and not alert.firing:
            channels = self._desk.told_of(rule, alert.subject, changed.tenant)
            changed = replace(changed, number=alert.number + 1, channels=channels)
        return changed

    async def _withdraw(self, alert: Alert, version: int) -> None:
        """The rule is gone or off: what it said fires no longer, and whoever was told hears so."""
        if alert.state.phase is AlertPhase.QUIET:
            return
        now = self._store.now()
        changed = replace(alert, state=AlertState(since_at=now), cleared_at=now)
        told = alert.state.told_at is not None
        await self._change(
            changed, alert, version, AlertTransition.CLEARS if told else AlertTransition.NOTHING
        )

    async def _change(self, changed: Alert, before: Alert, version: int, transition: AlertTransition) -> None:
        """Keep what changed with its notice; whoever does so first tells."""
        kind = _kind(transition)
        notice = None if kind is None else await self._notice(changed, kind)
        if notice is not None:
            changed = changed.with_notice(notice)
        if changed == before or not await records.write_alert(self._store, changed, version):
            return
        if notice is not None:
            self._tell(notice)

    async def _notice(self, alert: Alert, kind: NoticeKind) -> AlertNotice:
        if self._source is None:
            self._source = (await self._store.describe()).url
        return records.notice_of(alert, kind, self._source, self._store.now())

    def _tell(self, notice: AlertNotice) -> None:
        if notice.kind is NoticeKind.CLEARED:
            self._emit(AlertCleared(notice.rule, notice.subject, notice.text, notice.tenant))
            return
        self._emit(
            AlertFired(
                rule=notice.rule,
                severity=notice.severity.value,
                subject=notice.subject,
                text=notice.text,
                value=notice.value,
                tenant=notice.tenant,
                reminder=notice.kind is NoticeKind.REMINDER,
            )
        )


def _says_more(alert: Alert, reading: Reading, now: int) -> bool:
    """Whether the words of an alert stay: they are fresh, or from when more of the figure was seen."""
    if alert.firing and now - alert.seen_at < _RENEWED_MS:
        return True
    return alert.state.phase is not AlertPhase.QUIET and reading.partial and reading.value <= alert.value


def _kind(transition: AlertTransition) -> NoticeKind | None:
    match transition:
        case AlertTransition.FIRES:
            return NoticeKind.FIRED
        case AlertTransition.REMINDS:
            return NoticeKind.REMINDER
        case AlertTransition.CLEARS:
            return NoticeKind.CLEARED
        case AlertTransition.NOTHING:
            return None
    assert_never(transition)
