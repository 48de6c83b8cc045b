"""What is kept of alerts in the store: how each stands, with the notices that no channel has taken yet.

State and notices are one record, changed by compare-and-set: of many processes one fires, a restart does not
repeat it, and what fired is sent although the process died before it could. A channel may hear of the same
notice twice, under the same id, when a process dies between sending and noting it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import suppress
from enum import StrEnum
from hashlib import sha256

import msgspec

from redrive.core.alerts import AlertPhase, AlertSeverity, AlertState
from redrive.core.errors import VersionConflict
from redrive.core.records import Record
from redrive.core.store import Records
from redrive.office.records import every_record

ALERT_RECORDS = "alert"
SILENCE_RECORDS = "alert_silence"
CHANNEL_RECORDS = "alert_channel"
LETTERS = "letters"
"""The name that notices of single letters go by."""

_KEEP_S = 7 * 86_400.0


class NoticeKind(StrEnum):
    """What a notice says."""

    FIRED = "fired"
    REMINDER = "reminder"
    CLEARED = "cleared"
    LETTERS = "letters"
    TEST = "test"


class AlertNotice(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be told, and the channels that have not taken it.

    `key` is the same for all notices of one alert, `id` for all repeats of one notice.
    """

    id: str
    key: str
    kind: NoticeKind
    rule: str
    severity: AlertSeverity
    subject: str
    text: str
    at: int
    value: float = 0.0
    tenant: str | None = None
    runbook: str = ""
    left: tuple[str, ...] = ()


class Alert(msgspec.Struct, frozen=True, kw_only=True):
    """One rule for one subject. `number` counts how often it fired, `channels` are those it was then told to;
    `fired_at` is when all channels of the rule were last told that it fires, reminders apart; `seen_at` when
    its words were last renewed, `until_at` how far single letters were told."""

    rule: str
    subject: str
    severity: AlertSeverity = AlertSeverity.WARNING
    runbook: str = ""
    channels: tuple[str, ...] = ()
    tenant: str | None = None
    state: AlertState = AlertState()
    text: str = ""
    value: float = 0.0
    number: int = 0
    fired_at: int = 0
    seen_at: int = 0
    cleared_at: int | None = None
    until_at: int = 0
    notices: tuple[AlertNotice, ...] = ()

    @property
    def firing(self) -> bool:
        return self.state.phase is AlertPhase.FIRING

    def with_notice(self, notice: AlertNotice) -> Alert:
        """With a notice to be sent. A reminder of what a channel has not even heard yet would only come
        twice, and what no channel hears need not be kept."""
        if notice.kind is NoticeKind.REMINDER:
            waiting = {name for one in self.notices for name in one.left}
            left = tuple(name for name in notice.left if name not in waiting)
            notice = msgspec.structs.replace(notice, left=left)
        if not notice.left:
            return self
        return msgspec.structs.replace(self, notices=(*self.notices, notice))

    def taken(self, notice_id: str, channel: str) -> Alert:
        """With a notice that a channel took, or need not take any more."""
        kept = [_without(one, channel) if one.id == notice_id else one for one in self.notices]
        return msgspec.structs.replace(self, notices=tuple(one for one in kept if one.left))


class Silence(msgspec.Struct, frozen=True, kw_only=True):
    """Nothing is told of a rule (empty: of any), or of one subject of it, until an instant."""

    id: str
    rule: str
    subject: str | None
    until_at: int
    made_at: int
    actor: str
    why: str = ""

    def covers(self, rule: str, subject: str) -> bool:
        return self.rule in ("", rule) and self.subject in (None, subject)


class ChannelState(msgspec.Struct, frozen=True, kw_only=True):
    """How a channel does: since when it fails and why, when it is tried again, and what it last took."""

    failing_at: int | None = None
    attempts: int = 0
    next_at: int = 0
    problem: str = ""
    sent_at: int | None = None


def notice_of(alert: Alert, kind: NoticeKind, source: str, now: int) -> AlertNotice:
    """What is told of an alert, to the channels that it goes to."""
    key = alert_key(source, alert.rule, alert.subject)
    return AlertNotice(
        id=f"{key}-{alert.number}-{kind}-{now}",
        key=key,
        kind=kind,
        rule=alert.rule,
        severity=alert.severity,
        subject=alert.subject,
        text=alert.text,
        at=now,
        value=alert.value,
        tenant=alert.tenant,
        runbook=alert.runbook,
        left=alert.channels,
    )


def alert_key(source: str, rule: str, subject: str) -> str:
    """The same for one rule and subject of one store, and for no other."""
    return sha256(f"{source}\n{rule}\n{subject}".encode()).hexdigest()[:32]


async def every_alert(store: Records) -> AsyncIterator[tuple[Alert, int]]:
    """Every alert that is remembered, with the version that `write_alert` must expect.

    What a newer version of Redrive wrote and this one cannot read is left to that one.
    """
    async for record in every_record(store, ALERT_RECORDS):
        with suppress(msgspec.ValidationError):
            yield _alert(record), record.version


async def read_alert(store: Records, rule: str, subject: str) -> tuple[Alert, int]:
    """One alert and its version; a new one, and 0, when nothing is remembered."""
    record = await store.get_record(ALERT_RECORDS, alert_id(rule, subject))
    return (Alert(rule=rule, subject=subject), 0) if record is None else (_alert(record), record.version)


async def write_alert(store: Records, alert: Alert, version: int) -> bool:
    """Keep an alert in place of what was read; False when another process changed it since."""
    record_id = alert_id(alert.rule, alert.subject)
    forgotten = alert.state.phase is AlertPhase.QUIET and not alert.number and not alert.until_at
    try:
        if forgotten:
            await store.delete_record(ALERT_RECORDS, record_id, expected=version)
        else:
            ttl_s = _KEEP_S if alert.state.phase is AlertPhase.QUIET and not alert.until_at else None
            document = msgspec.to_builtins(alert)
            await store.put_record(ALERT_RECORDS, record_id, document, expected=version, ttl_s=ttl_s)
    except VersionConflict:
        return False
    return True


async def note_taken(store: Records, notice: AlertNotice, channel: str) -> None:
    """Note that a channel took a notice, whoever else changes the alert."""
    while True:
        alert, version = await read_alert(store, notice.rule, notice.subject)
        changed = alert.taken(notice.id, channel)
        if changed == alert or await write_alert(store, changed, version):
            return


async def silences(store: Records) -> list[Silence]:
    """Those that have not ended."""
    return [msgspec.convert(one.document, Silence) async for one in every_record(store, SILENCE_RECORDS)]


async def channel_state(store: Records, name: str) -> ChannelState:
    """How a channel does, as whoever sent last has noted."""
    record = await store.get_record(CHANNEL_RECORDS, name)
    return ChannelState() if record is None else msgspec.convert(record.document, ChannelState)


async def keep_channel_state(store: Records, name: str, state: ChannelState) -> None:
    """Note how a channel does."""
    document = msgspec.to_builtins(state)
    await store.put_record(CHANNEL_RECORDS, name, document, expected=None, ttl_s=_KEEP_S)


def alert_id(rule: str, subject: str) -> str:
    return f"{rule}/{subject}"


def _alert(record: Record) -> Alert:
    return msgspec.convert(record.document, Alert)


def _without(notice: AlertNotice, channel: str) -> AlertNotice:
    return msgspec.structs.replace(notice, left=tuple(name for name in notice.left if name != channel))
