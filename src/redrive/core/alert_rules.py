"""The rules that hold unless configuration changes them, and who is told.

`[alerts.NAME]` changes a rule here, turns it off, or adds one; `[channels.NAME]` says where to. Everything is
checked before anything runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from types import MappingProxyType
from typing import Any

from msgspec import Struct, field
from msgspec.structs import fields, replace

from redrive.core.alerts import SCOPES, AlertFigure, AlertRule, AlertScope, AlertSeverity
from redrive.core.errors import ConfigurationError

_DAY_S = 86_400.0


class ChannelSettings(Struct, frozen=True, kw_only=True):
    """Where notices go. `url` is a secret as a whole; `secret` signs what a webhook gets.

    `allow_http` and `allow_private` are for this channel's host alone. `letters`: it also hears of every dead
    letter, once a minute.
    """

    url: str = ""
    secret: str | None = None
    allow_http: bool = False
    allow_private: bool = False
    letters: bool = False

    @property
    def scheme(self) -> str:
        return self.url.partition("://")[0].lower()

    def __repr__(self) -> str:
        return f"ChannelSettings({self.scheme}://***)"

    def __rich_repr__(self) -> list[tuple[str, str]]:
        return [("url", f"{self.scheme}://***")]


class AlertSettings(Struct, frozen=True, kw_only=True):
    """The rules, the channels, and each tenant's contacts among them.

    A channel that is a tenant's contact hears of that tenant alone, unless a rule names it.
    """

    rules: tuple[AlertRule, ...] = ()
    channels: Mapping[str, ChannelSettings] = field(default_factory=dict)
    contacts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for rule in self.rules:
            self._check(f"alerts.{rule.name}.channels", rule.channels or ())
        for tenant, names in self.contacts.items():
            self._check(f"tenants.{tenant}.contacts", names)

    @property
    def live_rules(self) -> tuple[AlertRule, ...]:
        return tuple(rule for rule in self.rules if not rule.off)

    def told_of(self, rule: AlertRule, tenant: str | None) -> tuple[str, ...]:
        """The channels that hear of a rule, with those of the tenant that it is about."""
        own = self.contacts.get(tenant, ()) if tenant is not None else ()
        return tuple(dict.fromkeys((*self._usual(rule), *own)))

    def letter_channels(self) -> tuple[str, ...]:
        """The channels that hear of every dead letter."""
        return tuple(name for name, channel in self.channels.items() if channel.letters)

    def _usual(self, rule: AlertRule) -> tuple[str, ...]:
        if rule.channels is not None:
            return rule.channels
        contacts = {name for names in self.contacts.values() for name in names}
        return tuple(name for name in self.channels if name not in contacts)

    def _check(self, key: str, names: tuple[str, ...]) -> None:
        for name in names:
            if name not in self.channels:
                advice = near(name, self.channels) or "add it as a section of its own"
                raise ConfigurationError(f"{key}: there is no [channels.{name[:40]}]: {advice}")


def near(name: str, known: Mapping[str, object]) -> str:
    """The name that was probably meant, as a question; empty when none is near."""
    found = get_close_matches(name, list(known), n=1)
    return f"did you mean {found[0]}?" if found else ""


def _rule(name: str, metric: AlertFigure, runbook: str, **more: Any) -> AlertRule:
    more.setdefault("scope", SCOPES[metric][0])
    return AlertRule(name=name, metric=metric, runbook=f"runbook#{runbook}", **more)


def _defaults() -> Iterator[AlertRule]:
    grows = "the-dead-letter-queue-grows-fast"
    yield _rule("dlq_high", AlertFigure.DLQ, grows, above=100, clear=80)
    yield _rule("dlq_share", AlertFigure.DLQ_SHARE, grows, above=0.02, clear=0.01, window_s=600, least=50)
    yield _rule(
        "tenant_dlq",
        AlertFigure.DLQ,
        "a-tenant-floods-the-queue",
        scope=AlertScope.TENANT,
        above=50,
        clear=40,
    )
    yield _rule(
        "failure_share", AlertFigure.FAILURE_SHARE, grows, above=0.10, clear=0.05, window_s=600, least=50
    )
    yield _rule("processing_long", AlertFigure.PROCESSING_S, "a-handler-runs-for-too-long", above=300)
    yield _rule("retry_backlog", AlertFigure.RETRY_BACKLOG, "retries-pile-up", above=1_000, clear=800)
    yield _rule(
        "no_worker",
        AlertFigure.UNSERVED,
        "work-waits-and-no-worker-is-alive",
        window_s=60,
        severity=AlertSeverity.CRITICAL,
    )
    full = "redis-is-near-its-memory-limit"
    yield _rule("store_80", AlertFigure.STORE_SHARE, full, above=0.8, clear=0.75)
    yield _rule(
        "store_90", AlertFigure.STORE_SHARE, full, above=0.9, clear=0.85, severity=AlertSeverity.CRITICAL
    )
    yield _rule("store_refusing", AlertFigure.STORE_REFUSING, full, severity=AlertSeverity.CRITICAL)
    yield _rule(
        "rejected_connections",
        AlertFigure.REJECTED_CONNECTIONS,
        full,
        window_s=600,
        severity=AlertSeverity.CRITICAL,
    )
    yield _rule("relay_lost", AlertFigure.RELAY_LOST, "the-relay-is-down", severity=AlertSeverity.CRITICAL)
    yield _rule(
        "broker_lost",
        AlertFigure.BROKER_LOST,
        "the-broker-cannot-be-reached",
        window_s=60,
        severity=AlertSeverity.CRITICAL,
    )
    yield _rule("lane_held", AlertFigure.LANE_HELD, "a-lane-is-held")
    yield _rule(
        "letters_leaving",
        AlertFigure.LETTERS_LEAVING,
        "dead-letters-are-about-to-leave",
        severity=AlertSeverity.INFO,
    )
    yield _rule("letters_stuck", AlertFigure.LETTERS_STUCK, "dead-letters-are-about-to-leave")
    yield _rule("operation_halted", AlertFigure.OPERATIONS_HALTED, "an-operation-halted")
    odd = "a-figure-is-unusual"
    yield _rule("new_group", AlertFigure.NEW_GROUP, odd, window_s=3_600, least=3)
    yield _rule("unusual_dead", AlertFigure.DEAD, odd, unusual=True, above=10, window_s=3_600)
    yield _rule(
        "unusual_failures", AlertFigure.FAILURE_SHARE, odd, unusual=True, above=0.02, window_s=3_600, least=50
    )
    yield _rule(
        "unusual_handover", AlertFigure.HANDOVER_S, odd, unusual=True, above=1, window_s=600, least=50
    )
    yield _rule("unusual_waiting", AlertFigure.WAITING_S, odd, unusual=True, above=60, window_s=300)


DEFAULT_RULES: Mapping[str, AlertRule] = MappingProxyType({rule.name: rule for rule in _defaults()})


def make_rule(name: str, given: Mapping[str, Any]) -> AlertRule:
    """A rule as `[alerts.NAME]` has it: a known one with changes, or one of its own, which names a metric.

    Where only the limit of a known one is changed, the value at which it clears moves along.
    """
    known = DEFAULT_RULES.get(name)
    if known is not None and given.get("metric", known.metric) == known.metric:
        if known.clear is not None and "above" in given and "clear" not in given:
            given = {**given, "clear": known.clear / known.above * given["above"]}
        return replace(known, **given)
    if "metric" not in given:
        advice = (
            near(name, DEFAULT_RULES) or f"one of its own says so with metric = {AlertFigure.DLQ.value!r}"
        )
        raise ConfigurationError(f"there is no alert {name} to change: {advice}")
    own = {"scope": SCOPES[given["metric"]][0], **given}
    return AlertRule(name=name, **own)


RULE_FIELDS = tuple(each.name for each in fields(AlertRule) if each.name != "name")
"""What `[alerts.NAME]` may set."""
