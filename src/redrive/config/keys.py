"""Which keys there are, what each may hold, and what is said when it does not.

The keys are the fields of the settings classes: a field added there is a key here, a variable in the
environment and a row in the documentation. A value is judged alone; pairs are judged where layers meet.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from types import NoneType
from typing import Any, get_args, get_type_hints

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from redrive.core.alert_rules import RULE_FIELDS, ChannelSettings
from redrive.core.alerts import AlertRule, check_alert_name
from redrive.core.errors import ConfigurationError, InvalidMessage
from redrive.core.grants import SenderDomains
from redrive.core.message import check_queue, check_tenant
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

_LONGEST_S = 100 * 365 * 86_400.0
_SHOWN_LENGTH = 80
_SECRET = re.compile(r"([?&][^=&\s]{0,40}(?:pass|pwd|secret|token|key)[^=&\s]{0,40}=)[^&#\s]*", re.I)
_DESCRIPTIONS: Mapping[Any, str] = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "a text",
    NoneType: "none",
}


class LogLevel(StrEnum):
    """The least serious event that is logged."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class LogFormat(StrEnum):
    """How a log line is written: auto is text on a terminal and JSON elsewhere."""

    AUTO = "auto"
    JSON = "json"
    TEXT = "text"


class LogSettings(Struct, frozen=True, kw_only=True):
    """What is logged, and how it is written. `repeats` and `completions` are lines a minute, None is all."""

    level: LogLevel = LogLevel.INFO
    format: LogFormat = LogFormat.AUTO
    repeats: int | None = 20
    completions: int | None = 1_000

    def __post_init__(self) -> None:
        if min(self.repeats or 0, self.completions or 0) < 0:
            raise ConfigurationError("repeats and completions are 0 or more")


class Given(Struct, frozen=True):
    """One value that somebody set. `section` is empty at the top, `queues.NAME` for a queue, and so on.

    `text` says that the source has no types of its own, so that "10" may be a number.
    """

    section: str
    name: str
    value: object
    origin: str
    text: bool = False

    @property
    def key(self) -> str:
        return f"{self.section}.{self.name}" if self.section else self.name


SECTIONS: Mapping[str, type] = {
    "retry": RetryPolicy,
    "worker": WorkerSettings,
    "finished": FinishedSettings,
    "retention": RetentionSettings,
    "office": OfficeSettings,
    "redis": RedisSettings,
    "broker": BrokerSettings,
    "submit": SubmitSettings,
    "smtp": SmtpSettings,
    "logs": LogSettings,
    "telemetry": TelemetrySettings,
    "sentry": SentrySettings,
    "metrics": MetricsSettings,
}
NAMES: Mapping[str, Mapping[str, Any]] = {
    "": {"store": str, "data": str, "profile": str, "mail": str, "mail_rules": str, "listen": str},
    **{section: get_type_hints(kind) for section, kind in SECTIONS.items()},
}
QUEUE_NAMES: Mapping[str, Any] = {
    **get_type_hints(QueueSettings),
    **get_type_hints(RetryPolicy),
    "automatic_s": NAMES["office"]["automatic_s"],
}
Names = tuple[str, ...]
TENANT_NAMES: Mapping[str, Any] = {"from": SenderDomains, "contacts": Names}
RULE_NAMES: Mapping[str, Any] = {
    name: Names if name == "channels" else hint
    for name, hint in get_type_hints(AlertRule).items()
    if name in RULE_FIELDS
}
NAMED: Mapping[str, tuple[Callable[[str], str], Mapping[str, Any]]] = {
    "queues": (check_queue, QUEUE_NAMES),
    "tenants": (check_tenant, TENANT_NAMES),
    "alerts": (check_alert_name, RULE_NAMES),
    "channels": (check_alert_name, get_type_hints(ChannelSettings)),
}
"""Sections of which there may be many, each with a name of its own."""

SENTRY_VARIABLE = "SENTRY_DSN"
"""Not ours: Sentry's own name, which a machine may have set for every program on it."""

_SHORT = {("metrics", "listen"): "REDRIVE_METRICS"}
VARIABLES: Mapping[str, tuple[str, str]] = {
    _SHORT.get((section, name)) or "_".join(filter(None, ("REDRIVE", section, name))).upper(): (section, name)
    for section, names in NAMES.items()
    for name in names
}


def check(given: Given) -> Given:
    """The same with its value in its own type, or ConfigurationError."""
    hint = _hint(given)
    if hint is SenderDomains:
        return replace(given, value=_domains(given))
    if hint == Names:
        return replace(given, value=_texts(given))
    choices = get_args(hint) or (hint,)
    try:
        value = msgspec.convert(_plain(given.value, choices), hint, strict=not given.text or str in choices)
    except msgspec.ValidationError:
        raise wrong(given, _expected(given.value, choices)) from None
    if isinstance(value, float) and not math.isfinite(value):
        raise wrong(given, "a finite number")
    if given.name.endswith("_s") and (value or 0) > _LONGEST_S:
        raise wrong(given, "seconds, at most 100 years of them")
    if given.key == "profile" and value not in PROFILES:
        raise wrong(given, f"one of {', '.join(PROFILES)}")
    return replace(given, value=value)


def wrong(given: Given, expected: str) -> ConfigurationError:
    """The error for a value that cannot be, without what it may hold of secrets."""
    shown = "***" if is_hidden(given) else mask_url(repr(given.value))[:_SHOWN_LENGTH]
    return ConfigurationError(f"{given.key} from {given.origin} is {shown}: write {expected}")


def is_hidden(given: Given) -> bool:
    """Whether a value is a secret as a whole: an address of a channel may be one in any part."""
    return given.section.startswith("channels.") and given.name in ("url", "secret")


def nearest(name: str, known: Iterable[str]) -> str:
    """The end of an error about an unknown name: the one that was probably meant, or all."""
    from difflib import get_close_matches

    names = sorted(known)
    near = get_close_matches(name, names, n=1)
    return f"did you mean {near[0]}?" if near else f"use one of {', '.join(names)}"


def mask_url(url: str) -> str:
    """The URL as it may be shown: a password, also one among the parameters, becomes ***."""
    scheme, mark, rest = url.partition("://")
    login, at, place = rest.rpartition("@")
    user, colon, _ = login.partition(":")
    shown = f"{scheme}{mark}{user}:***@{place}" if at and colon else url
    return _SECRET.sub(r"\1***", shown)


def mask_dsn(dsn: str) -> str:
    """The DSN as it may be shown: without its key."""
    scheme, mark, rest = dsn.partition("://")
    return f"{scheme}{mark}***@{rest.rpartition('@')[2]}"


def _hint(given: Given) -> Any:
    names = _names(given)
    if given.name in names:
        return names[given.name]
    if given.section and isinstance(given.value, dict):
        head = given.section.partition(".")[0]
        advice = f'a name that has dots is quoted: [{head if head in NAMED else "queues"}."a.b"]'
    else:
        advice = nearest(given.name, names if given.section else [*names, *SECTIONS, *NAMED])
    raise ConfigurationError(f"{given.key} from {given.origin} is not a setting: {advice}")


def _names(given: Given) -> Mapping[str, Any]:
    head, _, name = given.section.partition(".")
    if head in NAMED:
        check_name, names = NAMED[head]
        try:
            check_name(name)
        except (InvalidMessage, ConfigurationError) as error:
            raise ConfigurationError(f"{given.key} from {given.origin}: {error}") from None
        return names
    if given.section not in NAMES:
        advice = nearest(given.section, [*SECTIONS, *NAMED])
        raise ConfigurationError(f"{given.key} from {given.origin} is in no known section: {advice}")
    return NAMES[given.section]


def _domains(given: Given) -> SenderDomains:
    value = given.value
    if not isinstance(value, list) or not value or not all(isinstance(one, str) for one in value):
        raise wrong(given, 'a list of domains, such as ["acme.example"]')
    try:
        return SenderDomains.parse(value)
    except ConfigurationError as error:
        raise ConfigurationError(f"{given.key} from {given.origin}: {error}") from None


def _texts(given: Given) -> tuple[str, ...]:
    value = given.value
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise wrong(given, 'a list of names, such as ["operations"]')
    return tuple(value)


def _plain(value: object, choices: tuple[Any, ...]) -> object:
    """TOML has no null and the environment only text: `none` is None, words are in lower case."""
    if not isinstance(value, str):
        return value
    word = value.strip().lower()
    if word == "none" and NoneType in choices:
        return None
    return value if str in choices else word


def _expected(value: object, choices: tuple[Any, ...]) -> str:
    """What belongs there, and of words the one that was probably meant."""
    from difflib import get_close_matches

    words = [
        str(word) for one in choices if isinstance(one, type) and issubclass(one, StrEnum) for word in one
    ]
    near = get_close_matches(str(value), words, n=1)
    return " or ".join(map(_describe, choices)) + (f": did you mean {near[0]}?" if near else "")


def _describe(choice: Any) -> str:
    if choice in _DESCRIPTIONS:
        return _DESCRIPTIONS[choice]
    return " or ".join(choice)
