"""The settings of a process, and how the layers of one queue come together.

For a queue: the profile, then [retry], then what its handler chose, then [queues.NAME]. A handler's
choice is a whole policy, so it replaces what is below it; a section in the file changes single fields.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from msgspec import Struct, field
from msgspec.structs import fields, replace

from redrive.config.keys import NAMES, SECTIONS, Given, LogSettings, mask_dsn, mask_url
from redrive.core.alert_rules import DEFAULT_RULES, AlertSettings
from redrive.core.errors import ConfigurationError
from redrive.core.grants import SenderDomains
from redrive.core.limits import Rate
from redrive.core.retry import PROFILES, RetryPolicy
from redrive.core.settings import (
    BrokerSettings,
    FinishedSettings,
    MetricsSettings,
    OfficeSettings,
    QueueSettings,
    RedisSettings,
    RetentionSettings,
    SentrySettings,
    SmtpSettings,
    SubmitSettings,
    TelemetrySettings,
    WorkerSettings,
)

DEFAULT_PROFILE = "production"
DEFAULT_STORE = "sqlite:///redrive.db"
DEFAULT_MAIL = "smtp://127.0.0.1:1025"
DEFAULT_LISTEN = "127.0.0.1:8025"
DEFAULT_ALERTS = AlertSettings(rules=tuple(DEFAULT_RULES.values()))

Part = TypeVar("Part", bound=Any)


class StoreDefaults(Struct, frozen=True):
    """What follows from a store's URL: the URL with its file in place, that file (None: a server), and how
    long finished messages are kept. `broker`: it carries and remembers nothing, its ledger does; a message is
    tried so often there unless somebody says otherwise."""

    url: str
    file: Path | None = None
    finished: FinishedSettings = field(default_factory=FinishedSettings)
    broker: bool = False
    attempts: int | None = None


class Settings(Struct, frozen=True, kw_only=True):
    """All settings. `retry` is the profile with [retry] on top; `queues` holds what its sections set, and
    `code` what the program itself named, which every other source overrules. `senders` are the domains that a
    tenant may send from, where [tenants.NAME] says so; `named` is what [alerts.NAME] and
    [channels.NAME] and contacts set, fit to be shown."""

    store: str = DEFAULT_STORE
    data: Path = Path()
    profile: str = DEFAULT_PROFILE
    mail: str = DEFAULT_MAIL
    mail_rules: Path | None = None
    listen: str = DEFAULT_LISTEN
    retry: RetryPolicy = PROFILES[DEFAULT_PROFILE]
    worker: WorkerSettings = field(default_factory=WorkerSettings)
    finished: FinishedSettings = field(default_factory=FinishedSettings)
    retention: RetentionSettings = field(default_factory=RetentionSettings)
    office: OfficeSettings = field(default_factory=OfficeSettings)
    redis: RedisSettings = field(default_factory=RedisSettings)
    broker: BrokerSettings = field(default_factory=BrokerSettings)
    submit: SubmitSettings = field(default_factory=SubmitSettings)
    smtp: SmtpSettings = field(default_factory=SmtpSettings)
    logs: LogSettings = field(default_factory=LogSettings)
    telemetry: TelemetrySettings = field(default_factory=TelemetrySettings)
    sentry: SentrySettings = field(default_factory=SentrySettings)
    metrics: MetricsSettings = field(default_factory=MetricsSettings)
    alerts: AlertSettings = DEFAULT_ALERTS
    queues: Mapping[str, Sequence[Given]] = field(default_factory=dict)
    senders: Mapping[str, SenderDomains] = field(default_factory=dict)
    named: Mapping[str, object] = field(default_factory=dict)
    origins: Mapping[str, str] = field(default_factory=dict)
    code: Mapping[str, str] = field(default_factory=dict)

    def policy(self, queue: str, chosen: RetryPolicy | None = None) -> RetryPolicy:
        """How a queue retries, given what its handler chose."""
        below = {name: f"{name} chosen by the handler" for name in NAMES["retry"]}
        if chosen is None:
            below = {name: f"{name} from {self.origins.get(f'retry.{name}', 'default')}" for name in below}
        return overlay(chosen or self.retry, self.queues.get(queue, ()), below)

    def queue(self, name: str, chosen: QueueSettings | None = None) -> QueueSettings:
        """How a queue runs, given what its handler chose."""
        return overlay(chosen or QueueSettings(), self.queues.get(name, ()), {})

    def automatic_s(self, queue: str) -> float | None:
        """After how long a queue's letters may be re-driven by themselves; None is never."""
        return overlay(self.office, self.queues.get(queue, ()), {}).automatic_s

    @property
    def names_relay(self) -> bool:
        """Whether somebody chose where mails go; the default is the simulator's address."""
        if not self.origins:
            return self.mail != DEFAULT_MAIL
        return self.origins.get("mail", "default") != "default"

    def sender_domains(self, tenant: str) -> SenderDomains:
        """The domains that a tenant may send from; none: any."""
        return self.senders.get(tenant, SenderDomains())

    def values(self) -> dict[str, object]:
        """Every value under the keys of `origins`, fit to be shown."""
        top = {
            "store": mask_url(self.store),
            "data": str(self.data),
            "profile": self.profile,
            "mail": mask_url(self.mail),
            "mail_rules": None if self.mail_rules is None else str(self.mail_rules),
            "listen": self.listen,
        }
        parts = {
            f"{section}.{name}": getattr(getattr(self, section), name)
            for section in SECTIONS
            for name in NAMES[section]
        }
        if self.sentry.dsn is not None:
            parts["sentry.dsn"] = mask_dsn(self.sentry.dsn)
        queues = {given.key: given.value for section in self.queues.values() for given in section}
        senders = {f"tenants.{tenant}.from": list(one.domains) for tenant, one in self.senders.items()}
        return {**top, **parts, **queues, **senders, **self.named}


def overlay(part: Part, layer: Sequence[Given], below: Mapping[str, str]) -> Part:
    """The part with the layer's values on top, or ConfigurationError naming where both came from.

    Values that are no field of the part are left alone; `below` says where the part's fields are from.
    """
    names = {each.name for each in fields(part)}
    own = [given for given in layer if given.name in names]
    try:
        whole: Part = replace(part, **{given.name: given.value for given in own})
        if isinstance(whole, QueueSettings) and whole.rate is not None:
            Rate.parse(whole.rate)
    except ConfigurationError as error:
        origins = {**below, **{given.name: f"{given.key} from {given.origin}" for given in own}}
        named = [where for name, where in origins.items() if re.search(rf"\b{name}\b", str(error))]
        raise ConfigurationError(f"{error} ({', '.join(named)})" if named else str(error)) from None
    return whole
