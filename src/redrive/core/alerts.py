"""Alerts: what is watched, when it fires, reminds and clears.

Pure: a rule, a state and a reading in, the next state and what to tell out.

A rule names a figure of a closed set. What is counted over time (`COUNTED`) has a window to count in; what is
read at an instant has to last that long. A rule that is `unusual` compares a figure with its own past, which
arrives as the reading's limit. Nothing here reads a store, a clock or a channel.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum

from msgspec import Struct
from msgspec.structs import replace

from redrive.core.errors import ConfigurationError

_NAME = re.compile(r"[a-z][a-z0-9_-]{0,59}", re.ASCII)


class AlertFigure(StrEnum):
    """What a rule may watch."""

    DLQ = "dlq"
    DLQ_SHARE = "dlq_share"
    DEAD = "dead"
    FAILURE_SHARE = "failure_share"
    RETRY_BACKLOG = "retry_backlog"
    PROCESSING_S = "processing_s"
    WAITING_S = "waiting_s"
    HANDOVER_S = "handover_s"
    UNSERVED = "unserved"
    STORE_SHARE = "store_share"
    STORE_REFUSING = "store_refusing"
    REJECTED_CONNECTIONS = "rejected_connections"
    RELAY_LOST = "relay_lost"
    BROKER_LOST = "broker_lost"
    LANE_HELD = "lane_held"
    LETTERS_LEAVING = "letters_leaving"
    LETTERS_STUCK = "letters_stuck"
    OPERATIONS_HALTED = "operations_halted"
    NEW_GROUP = "new_group"


class AlertScope(StrEnum):
    """What a rule looks at one by one: each fires and clears for itself."""

    STORE = "store"
    QUEUE = "queue"
    TENANT = "tenant"
    GROUP = "group"


class AlertSeverity(StrEnum):
    """How soon somebody should look."""

    INFO = "info"
    WARNING = "warning"
    CRITICAL = "critical"


COUNTED = frozenset(
    {
        AlertFigure.DLQ_SHARE,
        AlertFigure.DEAD,
        AlertFigure.FAILURE_SHARE,
        AlertFigure.HANDOVER_S,
        AlertFigure.REJECTED_CONNECTIONS,
        AlertFigure.NEW_GROUP,
    }
)
"""FigureReader that are counted within the window; the others have to last for it."""

SCOPES: Mapping[AlertFigure, tuple[AlertScope, ...]] = {
    AlertFigure.DLQ: (AlertScope.STORE, AlertScope.QUEUE, AlertScope.TENANT),
    AlertFigure.DLQ_SHARE: (AlertScope.STORE, AlertScope.QUEUE),
    AlertFigure.DEAD: (AlertScope.STORE, AlertScope.QUEUE),
    AlertFigure.FAILURE_SHARE: (AlertScope.STORE, AlertScope.QUEUE),
    AlertFigure.RETRY_BACKLOG: (AlertScope.STORE, AlertScope.QUEUE),
    AlertFigure.PROCESSING_S: (AlertScope.QUEUE,),
    AlertFigure.WAITING_S: (AlertScope.QUEUE,),
    AlertFigure.HANDOVER_S: (AlertScope.QUEUE,),
    AlertFigure.UNSERVED: (AlertScope.QUEUE,),
    AlertFigure.STORE_SHARE: (AlertScope.STORE,),
    AlertFigure.STORE_REFUSING: (AlertScope.STORE,),
    AlertFigure.REJECTED_CONNECTIONS: (AlertScope.STORE,),
    AlertFigure.RELAY_LOST: (AlertScope.STORE,),
    AlertFigure.BROKER_LOST: (AlertScope.STORE,),
    AlertFigure.LANE_HELD: (AlertScope.TENANT,),
    AlertFigure.LETTERS_LEAVING: (AlertScope.QUEUE,),
    AlertFigure.LETTERS_STUCK: (AlertScope.QUEUE,),
    AlertFigure.OPERATIONS_HALTED: (AlertScope.STORE,),
    AlertFigure.NEW_GROUP: (AlertScope.GROUP,),
}
"""The scopes that a figure can be read in; the first is the default."""

HAS_PAST = frozenset(
    {
        AlertFigure.DLQ_SHARE,
        AlertFigure.DEAD,
        AlertFigure.FAILURE_SHARE,
        AlertFigure.WAITING_S,
        AlertFigure.HANDOVER_S,
    }
)
"""FigureReader whose past is known, so that a rule can ask for what is unusual."""


class AlertRule(Struct, frozen=True, kw_only=True):
    """One rule. It fires `above` a value and clears at `clear` or below; `least` is the fewest sends or
    letters that a share or a group is judged by.

    An `unusual` rule fires above what was usual, and never at or below `above`. Without `remind_s` it is told
    once. `channels` of None are all that are nobody's contact.
    """

    name: str
    metric: AlertFigure
    scope: AlertScope
    above: float = 0.0
    clear: float | None = None
    window_s: float = 0.0
    least: int = 0
    severity: AlertSeverity = AlertSeverity.WARNING
    unusual: bool = False
    remind_s: float | None = None
    runbook: str = ""
    channels: tuple[str, ...] | None = None
    off: bool = False

    def __post_init__(self) -> None:
        if self.scope not in SCOPES[self.metric]:
            known = ", ".join(SCOPES[self.metric])
            raise ConfigurationError(f"scope is {self.scope}: {self.metric} has {known}")
        if self.clear is not None and self.clear > self.above:
            raise ConfigurationError(
                f"clear is {self.clear:g} and above is {self.above:g}: clear is at most above"
            )
        if min(self.above, self.window_s, self.least) < 0:
            raise ConfigurationError("above, window_s and least are 0 or more")
        if self.metric in COUNTED and self.window_s < 60:
            raise ConfigurationError(
                f"window_s is {self.window_s:g}: {self.metric} is counted over 60 or more"
            )
        if self.unusual and self.metric not in HAS_PAST:
            raise ConfigurationError(f"unusual: the past is known of {', '.join(sorted(HAS_PAST))}")
        if self.remind_s is not None and self.remind_s < 60:
            raise ConfigurationError(f"remind_s is {self.remind_s:g}: 60 or more, or none")

    @property
    def lasting_ms(self) -> int:
        """How long a reading must be above before it fires."""
        return 0 if self.metric in COUNTED else round(1000 * self.window_s)


class Reading(Struct, frozen=True):
    """A figure of one subject: a queue, a tenant, a group, or "" for the store.

    `volume` is how many it was made of; `limit` is what it must exceed besides the rule's own; `detail` says
    more in words; `tenant` is whose it is. `partial`: not all of it was seen, which is enough to fire by and
    not enough to say that something is over.
    """

    subject: str
    value: float
    volume: int | None = None
    limit: float | None = None
    detail: str = ""
    tenant: str | None = None
    partial: bool = False


class AlertPhase(StrEnum):
    """How one rule stands for one subject."""

    QUIET = "quiet"
    PENDING = "pending"
    FIRING = "firing"


class AlertTransition(StrEnum):
    """What is to be told."""

    NOTHING = "nothing"
    FIRES = "fires"
    REMINDS = "reminds"
    CLEARS = "clears"


class AlertState(Struct, frozen=True):
    """What is remembered of a rule and a subject. `since_at`: of this phase. `told_at`: when it was last told
    that it fires, None before. `limit`: what it exceeded, where that was more than the rule's own."""

    phase: AlertPhase = AlertPhase.QUIET
    since_at: int = 0
    told_at: int | None = None
    limit: float = 0.0


def judge(
    rule: AlertRule, state: AlertState, reading: Reading | None, now: int, *, silenced: bool = False
) -> tuple[AlertState, AlertTransition]:
    """The next state and what to tell; no reading is a value of 0. A silence keeps back what fires, never
    that something cleared which was told."""
    value = 0.0 if reading is None else reading.value
    partial = reading is not None and reading.partial
    if state.phase is AlertPhase.FIRING:
        if value <= _clear_at(rule, state):
            if partial:
                return state, AlertTransition.NOTHING
            told = state.told_at is not None
            return AlertState(since_at=now), AlertTransition.CLEARS if told else AlertTransition.NOTHING
        return _tell(rule, state, now, silenced)
    limit = threshold(rule, reading)
    if value <= limit or (reading is not None and reading.volume is not None and reading.volume < rule.least):
        if partial:
            return state, AlertTransition.NOTHING
        return AlertState(
            since_at=state.since_at if state.phase is AlertPhase.QUIET else now
        ), AlertTransition.NOTHING
    began_at = state.since_at if state.phase is AlertPhase.PENDING else now
    if now - began_at < rule.lasting_ms:
        return AlertState(AlertPhase.PENDING, began_at), AlertTransition.NOTHING
    own = limit if limit > rule.above else 0.0
    return _tell(rule, AlertState(AlertPhase.FIRING, now, limit=own), now, silenced)


def threshold(rule: AlertRule, reading: Reading | None) -> float:
    """What a reading must exceed."""
    limit = None if reading is None else reading.limit
    return rule.above if limit is None else max(rule.above, limit)


def _clear_at(rule: AlertRule, state: AlertState) -> float:
    """The limit that the reading itself had when it fired: what lasts does not become usual by lasting."""
    if state.limit:
        return state.limit
    return rule.above if rule.clear is None else rule.clear


def _tell(rule: AlertRule, state: AlertState, now: int, silenced: bool) -> tuple[AlertState, AlertTransition]:
    if silenced:
        return state, AlertTransition.NOTHING
    if state.told_at is None:
        return replace(state, told_at=now), AlertTransition.FIRES
    if rule.remind_s is not None and now - state.told_at >= 1000 * rule.remind_s:
        return replace(state, told_at=now), AlertTransition.REMINDS
    return state, AlertTransition.NOTHING


def check_alert_name(name: str) -> str:
    """The name of a rule or a channel, or ConfigurationError."""
    if not _NAME.fullmatch(name):
        raise ConfigurationError(
            f"{name[:40]!r} is not a name: use a-z, 0-9, _ and -, a letter first, at most 60"
        )
    return name
