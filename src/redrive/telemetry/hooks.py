"""The events that a team's own code can hear of: `@app.on("dead")`, and which function hears of which.

The table has every event that a person outside of Redrive can make sense of; the others are named too, so
that a new event is decided on. A hook is for news: it may miss some, and the work never waits for it.
`@app.on_dead` is for what must be done for each dead letter. `engine/hooks.py` calls the functions.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Protocol

from redrive.core.errors import ConfigurationError
from redrive.core.values import as_span
from redrive.machine.forks import watch
from redrive.telemetry import events
from redrive.telemetry.door import Telemetry
from redrive.telemetry.events import Event

HOOKS: Mapping[str, type[Event]] = {
    "accepted": events.BatchAccepted,
    "done": events.Completed,
    "retry": events.RetryScheduled,
    "dead": events.Buried,
    "released": events.Released,
    "held": events.LaneHeld,
    "resumed": events.LaneResumed,
    "alert": events.AlertFired,
    "alert-cleared": events.AlertCleared,
    "stale": events.SettleRefused,
    "overran": events.HandlerOverran,
    "lease-lost": events.LeaseLost,
    "lagged": events.LoopLagged,
    "store-down": events.StoreTrouble,
    "store-back": events.StoreBack,
    "store-refusing": events.StoreRefusing,
    "store-accepting": events.StoreAccepting,
    "relay-down": events.RelayLost,
    "relay-back": events.RelayBack,
    "worker-started": events.WorkerStarted,
    "worker-stopping": events.WorkerStopping,
    "worker-stopped": events.WorkerStopped,
    "letters-leaving": events.LettersLeaving,
    "letters-archived": events.LettersArchived,
    "retention-failed": events.RetentionFailed,
    "operation-halted": events.OperationHalted,
    "operation-ended": events.OperationEnded,
    "channel-down": events.ChannelFailed,
    "channel-back": events.ChannelBack,
    "notice-dropped": events.NoticeDropped,
}
INTERNAL: frozenset[type] = frozenset(
    {
        events.BatchClaimed,
        events.BatchSettled,
        events.HandlerRaised,
        events.LeasesExtended,
        events.LoopFailed,
        events.CleanedUp,
        events.HookFailed,
        events.HookDropped,
    }
)
"""What is about how we work, and what hooks themselves cause."""


@dataclass(frozen=True, slots=True, eq=False)
class Hook:
    """One function that hears of one kind of event; a call may take `limit_s`."""

    event: str
    function: Callable[[Any], object]
    limit_s: float

    @property
    def name(self) -> str:
        """How the log names it."""
        return getattr(self.function, "__qualname__", type(self.function).__name__)


def make_hook(event: object, function: Callable[[Any], object], limit: timedelta | float) -> Hook:
    """What `@app.on` says, or ConfigurationError; a bare decorator hands in the function."""
    if not isinstance(event, str):
        raise ConfigurationError('a hook names its event: write @app.on("dead"), not @app.on alone')
    if event not in HOOKS:
        raise ConfigurationError(
            f"there is no event {event[:40]!r} to hook on: use one of {', '.join(HOOKS)}"
        )
    try:
        limit_s = as_span(limit).total_seconds()
    except ValueError as error:
        raise ConfigurationError(f"limit {error}") from None
    if limit_s <= 0:
        raise ConfigurationError(f"limit is {limit_s:g} s: it must be more than 0")
    return Hook(event, function, limit_s)


class HookDesk(Protocol):
    """Where the hooks of one event loop are called."""

    def put(self, hook: Hook, event: Event) -> None:
        """Call it soon, or drop the event; never waits, from any thread."""
        ...


class HookSink:
    """The sink; it hears of nothing until there is a hook."""

    def __init__(self, telemetry: Telemetry) -> None:
        self._telemetry = telemetry
        self._hooks: dict[type, list[Hook]] = {}
        self._desks: dict[int, HookDesk] = {}
        watch(self)

    def add(self, hook: Hook) -> None:
        """Call a function from now on."""
        if not self._hooks:
            self._telemetry.add(self)
        self._hooks.setdefault(HOOKS[hook.event], []).append(hook)

    def open(self, desk: HookDesk) -> None:
        """Events of this thread go to this desk; those of threads without one, to the first."""
        self._desks[threading.get_ident()] = desk

    def close(self, desk: HookDesk) -> None:
        """No more events for this desk."""
        self._desks = {thread: one for thread, one in self._desks.items() if one is not desk}

    def __call__(self, event: Event) -> None:
        hooks = self._hooks.get(type(event))
        if hooks is None:
            return
        desk = self._desks.get(threading.get_ident()) or next(iter(self._desks.values()), None)
        if desk is not None:
            for hook in hooks:
                desk.put(hook, event)

    def forked(self) -> None:
        """In a child: the desks are the parent's."""
        self._desks = {}


def markdown_table() -> str:
    """The events as the documentation shows them."""
    head = ["| `@app.on(…)` | event | what happened | fields |", "| --- | --- | --- | --- |"]
    return "\n".join([*head, *(_row(name, kind) for name, kind in HOOKS.items())])


def _row(name: str, kind: type) -> str:
    fields = ", ".join(f"`{field}`" for field in kind.__annotations__)
    meaning = " ".join((kind.__doc__ or "").split())
    return f"| `{name}` | `{kind.__name__}` | {meaning} | {fields} |"
