"""Where notices go: a channel a section of the settings, made by the scheme of its URL.

`https` is a webhook, signed where it has a secret; `pagerduty` opens an incident and resolves it, under the
alert's own key; all others are apprise's. What a channel says of its failure never holds its URL.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol
from urllib.parse import parse_qs, urlsplit

import msgspec

from redrive.core.alert_rules import AlertSettings, ChannelSettings
from redrive.core.alerts import AlertFigure, AlertRule, AlertSeverity
from redrive.core.errors import ConfigurationError, RedriveError
from redrive.core.values import instant
from redrive.office.alerts.https import PostError, Target, post
from redrive.office.alerts.records import AlertNotice, NoticeKind

PAGERDUTY = "events.pagerduty.com"
_PAGERDUTY_PATH = "/v2/enqueue"
_MAIL = ("mailto", "mailtos")
_SUMMARY = 1_024
SHARES_RELAY = "sends through the relay that mails go through: alerts about mail are not sent there"
_log = logging.getLogger("redrive")


class ChannelError(RedriveError):
    """A channel did not take a notice; says why, without secrets."""


class AlertChannel(Protocol):
    """Takes notices."""

    async def send(self, notice: AlertNotice) -> None:
        """Hand a notice over, or ChannelError. The same notice may come again."""
        ...


@dataclass(frozen=True, slots=True)
class Alerting:
    """The rules, the channels by name, and which of them would go through the relay that mails go through."""

    settings: AlertSettings = field(default_factory=AlertSettings)
    relay: str | None = None
    mail_queue: str = ""
    made: dict[str, AlertChannel] = field(default_factory=dict)

    def channel(self, name: str) -> AlertChannel:
        """The channel of this name; ConfigurationError when it cannot be."""
        if name not in self.made:
            settings = self.settings.channels.get(name)
            if settings is None:
                known = ", ".join(sorted(self.settings.channels)) or "none"
                raise ConfigurationError(
                    f"there is no channel {name[:40]!r} in the settings; there is: {known}"
                )
            self.made[name] = make_channel(name, settings)
        return self.made[name]

    def check(self) -> None:
        """ConfigurationError when one of the channels cannot be, before anything runs; a warning about one
        that needs the relay that mails go through."""
        for name in self.settings.channels:
            self.channel(name)
            if self.shares_relay(name):
                _log.warning("the channel %s %s", name, SHARES_RELAY)

    def told_of(self, rule: AlertRule, subject: str, tenant: str | None) -> tuple[str, ...]:
        """The channels that hear of a rule and a subject: of mail, none that needs the same relay."""
        names = self.settings.told_of(rule, tenant)
        if not self._is_about_mail(rule, subject):
            return names
        return tuple(name for name in names if not self.shares_relay(name))

    def shares_relay(self, name: str) -> bool:
        """Whether a channel sends mail through the relay of the gateway."""
        channel = self.settings.channels.get(name)
        if channel is None or self.relay is None or channel.scheme not in _MAIL:
            return False
        host = mail_host(channel.url)
        return bool(host) and (self.relay == host or self.relay.endswith(f".{host}"))

    def _is_about_mail(self, rule: AlertRule, subject: str) -> bool:
        queue = subject.partition("/")[0]
        return rule.metric is AlertFigure.RELAY_LOST or (bool(self.mail_queue) and queue == self.mail_queue)


def mail_host(url: str) -> str:
    """The server that a mailto URL sends through, as far as it says."""
    parts = urlsplit(url)
    named = parse_qs(parts.query).get("smtp", [parts.hostname or ""])
    return named[0].lower()


def make_channel(name: str, settings: ChannelSettings) -> AlertChannel:
    """The channel of a section, or ConfigurationError naming it."""
    try:
        match settings.scheme:
            case "http" | "https":
                return Webhook(_target(settings, settings.url), settings.secret)
            case "pagerduty":
                return _pagerduty(settings)
            case _:
                from redrive.office.alerts.by_apprise import ByApprise

                return ByApprise(name, settings.url)
    except ConfigurationError as error:
        raise ConfigurationError(f"[channels.{name}] {error}") from None


def _target(settings: ChannelSettings, url: str) -> Target:
    return Target.parse(url, allow_http=settings.allow_http, allow_private=settings.allow_private)


def _pagerduty(settings: ChannelSettings) -> PagerDuty:
    """`pagerduty://KEY`, or `pagerduty://KEY@events.eu.pagerduty.com`."""
    key, _, host = settings.url.partition("://")[2].rstrip("/").rpartition("@")
    if not key:
        key, host = host, PAGERDUTY
    if not key.isalnum():
        raise ConfigurationError("the url is not pagerduty://KEY with the key of an Events v2 integration")
    scheme = "http" if settings.allow_http else "https"
    return PagerDuty(key, _target(settings, f"{scheme}://{host}{_PAGERDUTY_PATH}"))


class Webhook:
    """Posts a notice as JSON. With a secret, `Redrive-Signature` is the HMAC-SHA256 of the instant in
    `Redrive-Timestamp`, a dot and the body."""

    def __init__(self, target: Target, secret: str | None = None) -> None:
        self._target = target
        self._secret = secret

    async def send(self, notice: AlertNotice) -> None:
        body, stamp = json.dumps(notice_document(notice)).encode(), str(notice.at // 1000)
        headers = {"Idempotency-Key": notice.id, "Redrive-Timestamp": stamp}
        if self._secret is not None:
            signed = hmac.new(self._secret.encode(), f"{stamp}.".encode() + body, hashlib.sha256)
            headers["Redrive-Signature"] = f"sha256={signed.hexdigest()}"
        await _post(self._target, body, headers)


class PagerDuty:
    """An incident for each alert, by the Events API v2: triggered, triggered again to remind, resolved."""

    def __init__(self, key: str, target: Target) -> None:
        self._key = key
        self._target = target

    async def send(self, notice: AlertNotice) -> None:
        await _post(self._target, json.dumps(self._event(notice)).encode(), {})

    def _event(self, notice: AlertNotice) -> dict[str, Any]:
        resolves = notice.kind is NoticeKind.CLEARED
        event: dict[str, Any] = {
            "routing_key": self._key,
            "event_action": "resolve" if resolves else "trigger",
            "dedup_key": notice.key,
        }
        if not resolves:
            event["payload"] = {
                "summary": title(notice)[:_SUMMARY],
                "source": "redrive",
                "severity": notice.severity.value,
                "timestamp": instant(notice.at),
                "component": notice.subject or "store",
                "class": notice.rule,
                "custom_details": notice_document(notice),
            }
        return event


async def _post(target: Target, body: bytes, headers: Mapping[str, str]) -> None:
    try:
        await post(target, body, headers)
    except PostError as error:
        raise ChannelError(str(error)) from None


def title(notice: AlertNotice) -> str:
    """A notice in one line."""
    match notice.kind:
        case NoticeKind.CLEARED:
            return f"[cleared] {notice.rule}: {notice.text}"
        case NoticeKind.REMINDER:
            return f"[{notice.severity}, still] {notice.rule}: {notice.text}"
        case _:
            return f"[{notice.severity}] {notice.rule}: {notice.text}"


def notice_document(notice: AlertNotice) -> dict[str, Any]:
    """A notice as JSON."""
    return {
        "id": notice.id,
        "key": notice.key,
        "kind": notice.kind.value,
        "alert": notice.rule,
        "severity": notice.severity.value,
        "subject": notice.subject or None,
        "companyId": notice.tenant,
        "text": notice.text,
        "value": notice.value,
        "at": instant(notice.at),
        "runbook": notice.runbook or None,
    }


def make_test(channel: str, now: int) -> AlertNotice:
    """The notice of `redrive alerts test`."""
    return AlertNotice(
        id=f"test-{channel}-{now}",
        key=f"test-{channel}",
        kind=NoticeKind.TEST,
        rule="test",
        severity=AlertSeverity.INFO,
        subject="",
        text=f"this is a test of the channel {channel}: nothing is wrong",
        at=now,
        left=(channel,),
    )


def resolved(notice: AlertNotice) -> AlertNotice:
    """The end of a test, so that no incident of it stays open."""
    return msgspec.structs.replace(notice, kind=NoticeKind.CLEARED, id=f"{notice.id}-end")
