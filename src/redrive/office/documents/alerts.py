"""Alerts, silences, channels and rules as they go out; of a channel's address, only what it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from redrive.core.values import instant
from redrive.office.documents.document import Document

if TYPE_CHECKING:
    from redrive.core.alert_rules import ChannelSettings
    from redrive.core.alerts import AlertRule
    from redrive.office.alerts.records import Alert, ChannelState, Silence


class AlertDocument(Document, frozen=True):
    """A rule that fires, is about to (`pending`), or has cleared within the last week (`quiet`).

    `subject` is a queue, a tenant, a queue and a tenant, or a group; null for the whole store. `waitingFor`
    are the channels that have not taken all its notices.
    """

    alert: str
    severity: str
    subject: str | None
    company_id: str | None
    state: str
    since: str
    cleared_at: str | None
    text: str
    value: float
    fired: int
    silenced: bool
    runbook: str | None
    waiting_for: list[str]


class SilenceDocument(Document, frozen=True):
    """Until when nothing is told of an alert (null: of any), or of one subject of it, and who said so."""

    id: str
    alert: str | None
    subject: str | None
    until: str
    made_at: str
    actor: str
    why: str


class ChannelDocument(Document, frozen=True):
    """A channel: what kind it is, since when it fails and why, and when it last took a notice."""

    name: str
    kind: str
    failing_since: str | None
    attempts: int
    problem: str | None
    next_at: str | None
    last_sent_at: str | None
    note: str | None


class AlertRuleDocument(Document, frozen=True):
    """A rule as it holds; `channels` of null are all that are nobody's contact."""

    name: str
    metric: str
    scope: str
    above: float
    clear: float
    window_s: float
    least: int
    severity: str
    unusual: bool
    remind_s: float | None
    runbook: str | None
    channels: list[str] | None
    off: bool


class AlertList(Document, frozen=True):
    """What fires, what is silenced, and how the channels do; with a bound key, what is about its tenant.

    `more` alerts are left out, where there are more than a page.
    """

    alerts: list[AlertDocument]
    more: int
    silences: list[SilenceDocument]
    channels: list[ChannelDocument]


class AlertRuleList(Document, frozen=True):
    """Every rule, those that are off included."""

    rules: list[AlertRuleDocument]


class ChannelTest(Document, frozen=True):
    """What came of a test: `taken`, or what the problem is."""

    channel: str
    taken: bool
    problem: str | None


SCHEMAS = (AlertList, AlertRuleList, SilenceDocument, ChannelTest)


def alert_document(alert: Alert, *, silenced: bool, whole: bool = True) -> AlertDocument:
    """An alert; not `whole`, without the names of channels."""
    waiting = sorted({name for notice in alert.notices for name in notice.left}) if whole else []
    return AlertDocument(
        alert=alert.rule,
        severity=alert.severity.value,
        subject=alert.subject or None,
        company_id=alert.tenant,
        state=alert.state.phase.value,
        since=instant(alert.state.since_at),
        cleared_at=instant(alert.cleared_at),
        text=alert.text,
        value=alert.value,
        fired=alert.number,
        silenced=silenced,
        runbook=alert.runbook or None,
        waiting_for=waiting,
    )


def silence_document(silence: Silence) -> SilenceDocument:
    """A silence."""
    return SilenceDocument(
        id=silence.id,
        alert=silence.rule or None,
        subject=silence.subject,
        until=instant(silence.until_at),
        made_at=instant(silence.made_at),
        actor=silence.actor,
        why=silence.why,
    )


def channel_document(name: str, settings: ChannelSettings, state: ChannelState, note: str) -> ChannelDocument:
    """A channel, without its address."""
    failing = state.failing_at is not None
    return ChannelDocument(
        name=name,
        kind=settings.scheme,
        failing_since=instant(state.failing_at),
        attempts=state.attempts,
        problem=state.problem or None,
        next_at=instant(state.next_at) if failing else None,
        last_sent_at=instant(state.sent_at),
        note=note or None,
    )


def rule_document(rule: AlertRule) -> AlertRuleDocument:
    """A rule."""
    return AlertRuleDocument(
        name=rule.name,
        metric=rule.metric.value,
        scope=rule.scope.value,
        above=rule.above,
        clear=rule.above if rule.clear is None else rule.clear,
        window_s=rule.window_s,
        least=rule.least,
        severity=rule.severity.value,
        unusual=rule.unusual,
        remind_s=rule.remind_s,
        runbook=rule.runbook or None,
        channels=None if rule.channels is None else list(rule.channels),
        off=rule.off,
    )
