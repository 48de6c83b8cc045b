"""Alerts for people: what fires, who is told, silences, and a test of a channel.

`watch` is the duty that judges and sends; here is what an actor may ask and say. Whoever is bound to a tenant
sees the alerts about that tenant alone, and neither channels nor silences.
"""

from __future__ import annotations

import builtins
import secrets
from datetime import timedelta
from difflib import get_close_matches

import msgspec

from redrive.core.alert_rules import AlertSettings
from redrive.core.alerts import AlertPhase
from redrive.core.condition import Finding, Grade
from redrive.core.errors import ConfigurationError
from redrive.core.ports import PAGE
from redrive.core.store import Records
from redrive.core.values import instant
from redrive.office.alerts import records
from redrive.office.alerts.channels import SHARES_RELAY, Alerting, ChannelError, make_test, resolved
from redrive.office.alerts.records import LETTERS, SILENCE_RECORDS, Silence
from redrive.office.audit import Actor, action
from redrive.office.documents.alerts import (
    AlertDocument,
    AlertList,
    AlertRuleList,
    ChannelDocument,
    ChannelTest,
    SilenceDocument,
    alert_document,
    channel_document,
    rule_document,
    silence_document,
)
from redrive.office.ports import Books
from redrive.office.view import NotFound, View

LONGEST_SILENCE = timedelta(days=30)
_WHY = 500
_ORDER = (AlertPhase.FIRING, AlertPhase.PENDING, AlertPhase.QUIET)


async def channel_findings(store: Records, settings: AlertSettings) -> list[Finding]:
    """For `redrive doctor`: whether each channel took what it was last sent."""
    found = []
    for name in settings.channels:
        state = await records.channel_state(store, name)
        if state.problem:
            fix = f"redrive alerts test {name}, once it is fixed; until then its notices are kept for a day"
            said = f"it has not taken notices since {instant(state.failing_at)}: {state.problem}"
            found.append(Finding(f"channel {name}", Grade.WARNING, said, fix))
        else:
            said = "not used yet" if state.sent_at is None else f"took a notice at {instant(state.sent_at)}"
            found.append(Finding(f"channel {name}", Grade.RIGHT, said))
    return found


class NoSilence(NotFound):
    """There is no silence of this id, or it has ended."""

    def __init__(self, silence_id: str) -> None:
        super().__init__(f"no silence {silence_id!r}: redrive alerts list shows those that hold")


class NoChannel(NotFound):
    """There is no channel of this name in the settings."""

    def __init__(self, name: str, known: list[str]) -> None:
        super().__init__(f"no channel {name!r} in the settings; there is: {', '.join(known) or 'none'}")


class Alerts:
    """The verbs on alerts."""

    def __init__(self, store: Books, alerting: Alerting, actor: Actor, view: View) -> None:
        self._store = store
        self._alerting = alerting
        self._actor = actor
        self._view = view

    async def list(self, *, every: bool = False) -> AlertList:
        """What fires or is about to; `every`: and what has cleared within the last week."""
        unbound, found = self._view.scope is None, await self._alerts(every=every)
        return AlertList(
            alerts=found[:PAGE],
            more=max(0, len(found) - PAGE),
            silences=[silence_document(one) for one in await records.silences(self._store)]
            if unbound
            else [],
            channels=await self._channels() if unbound else [],
        )

    async def firing(self) -> builtins.list[AlertDocument]:
        """What fires now, at most a page of it."""
        found = await self._alerts(every=False)
        return [one for one in found if one.state == AlertPhase.FIRING][:PAGE]

    def rules(self) -> AlertRuleList:
        """Every rule as it holds."""
        self._view.demand_all()
        return AlertRuleList(rules=[rule_document(rule) for rule in self._alerting.settings.rules])

    async def test(self, channel: str) -> ChannelTest:
        """Send a test through a channel now, and end it where it opens an incident."""
        self._view.demand_all()
        if channel not in self._alerting.settings.channels:
            raise NoChannel(channel, sorted(self._alerting.settings.channels))
        async with action(self._store, self._actor, "test channel", {"channel": channel}) as current:
            problem = await self._try(channel)
            current.result["taken"] = problem is None
        return ChannelTest(channel=channel, taken=problem is None, problem=problem)

    async def silence(
        self, rule: str | None, subject: str | None, length: timedelta, why: str = ""
    ) -> SilenceDocument:
        """Tell nothing of a rule, or of one subject of it, or with None of any, for so long."""
        self._view.demand_all()
        self._check(rule, subject, length, why)
        now = self._store.now()
        made = Silence(
            id=secrets.token_hex(6),
            rule=rule or "",
            subject=subject,
            until_at=now + round(1000 * length.total_seconds()),
            made_at=now,
            actor=self._actor.name,
            why=why.strip(),
        )
        said = {
            "silence": made.id,
            "alert": rule,
            "subject": subject,
            "until": made.until_at,
            "why": made.why,
        }
        async with action(self._store, self._actor, "silence alert", said):
            document = msgspec.to_builtins(made)
            await self._store.put_record(
                SILENCE_RECORDS, made.id, document, expected=0, ttl_s=length.total_seconds()
            )
        return silence_document(made)

    async def unsilence(self, silence_id: str) -> SilenceDocument:
        """End a silence now, or NoSilence."""
        self._view.demand_all()
        known = {one.id: one for one in await records.silences(self._store)}
        if silence_id not in known:
            raise NoSilence(silence_id)
        async with action(self._store, self._actor, "unsilence alert", {"silence": silence_id}):
            await self._store.delete_record(SILENCE_RECORDS, silence_id, expected=None)
        return silence_document(known[silence_id])

    async def _alerts(self, *, every: bool) -> builtins.list[AlertDocument]:
        scope, silenced = self._view.scope, await records.silences(self._store)
        found = [alert async for alert, _ in records.every_alert(self._store) if alert.rule != LETTERS]
        shown = [
            one
            for one in found
            if scope in (None, one.tenant) and (every or one.state.phase is not AlertPhase.QUIET)
        ]
        shown.sort(key=lambda one: (_ORDER.index(one.state.phase), -one.state.since_at, one.rule))
        return [
            alert_document(
                one,
                silenced=any(each.covers(one.rule, one.subject) for each in silenced),
                whole=scope is None,
            )
            for one in shown
        ]

    async def _channels(self) -> builtins.list[ChannelDocument]:
        return [
            channel_document(
                name,
                settings,
                await records.channel_state(self._store, name),
                SHARES_RELAY if self._alerting.shares_relay(name) else "",
            )
            for name, settings in self._alerting.settings.channels.items()
        ]

    async def _try(self, channel: str) -> str | None:
        notice = make_test(channel, self._store.now())
        try:
            await self._alerting.channel(channel).send(notice)
            if self._alerting.settings.channels[channel].scheme == "pagerduty":
                await self._alerting.channel(channel).send(resolved(notice))
        except (ChannelError, ConfigurationError) as error:
            return str(error)
        return None

    def _check(self, rule: str | None, subject: str | None, length: timedelta, why: str) -> None:
        names = [one.name for one in self._alerting.settings.rules]
        if rule is not None and rule not in names:
            near = get_close_matches(rule, names, n=1)
            advice = f"did you mean {near[0]}?" if near else "redrive alerts rules lists them"
            raise ConfigurationError(f"there is no alert {rule[:40]!r}: {advice}")
        if rule is None and subject is not None:
            raise ConfigurationError("a subject is of one alert: name that too")
        if not timedelta() < length <= LONGEST_SILENCE:
            raise ConfigurationError("a silence is for more than 0 seconds and at most 30 days")
        if len(why) > _WHY or (subject is not None and len(subject) > _WHY):
            raise ConfigurationError(f"a reason and a subject have at most {_WHY} characters")
