"""The sink that logs, and what it does with repeats: counted above a limit, unless the level is debug.

A failure that thousands of messages share is one piece of news. Each of them is in the store with all its
failures, so the log need not hold each: it holds the first, and then a count a minute.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from redrive.core.failure import Failure
from redrive.telemetry import events
from redrive.telemetry.events import Event
from redrive.telemetry.logs import WORDS, describe, highest_level_of, level_of, log_event, logger, write
from redrive.telemetry.repeats import Repeated, Repeats


@dataclass(frozen=True, slots=True)
class LogLine:
    """One log line, before it is written."""

    level: int
    text: str
    fields: dict[str, Any]


class LogSink:
    """The sink. Within a minute, the same failure of a queue is logged `repeats` times and completions of a
    queue `completions` times, then once with a count; None logs each."""

    def __init__(self, repeats: int | None = None, completions: int | None = None) -> None:
        once = None if repeats is None else min(1, repeats)
        own = {events.Completed: completions, events.HookFailed: once}
        self._limits = dict.fromkeys(_SAME, repeats) | own
        self._repeats = Repeats(_log_repeated)

    def __call__(self, event: Event) -> None:
        kind, level = type(event), level_of(event)
        if not logger.isEnabledFor(level):
            return
        limit = self._limits.get(kind)
        if limit is None or logger.isEnabledFor(logging.DEBUG):
            if kind is events.WorkerStopped:
                self.flush()
            log_event(event)
        elif self._repeats.admit(_SAME[kind](event), limit, lambda: LogLine(level, *describe(event))):
            log_event(event)

    def hear_all(self, events: Sequence[Event]) -> None:
        """Events that happened together; most are below the level, so that is asked once for each kind."""
        loud = {kind for kind in set(map(type, events)) if logger.isEnabledFor(highest_level_of(kind))}
        if loud:
            for event in events:
                if type(event) in loud:
                    self(event)

    def flush(self) -> None:
        """Log what was counted so far."""
        self._repeats.flush()


def _log_repeated(repeated: Repeated[LogLine]) -> None:
    line, lasted_s = repeated.sample, max(1, round(repeated.lasted_s))
    again = "" if line.level < logging.WARNING else "same failure "
    text = f"{line.text}: {again}{repeated.count:,} times in {lasted_s} s"
    common = {name: value for name, value in line.fields.items() if name in _COMMON}
    counted = {"count": repeated.count, "notLogged": repeated.untold, "windowS": lasted_s}
    told = {word: common[name] for name, word in WORDS.items() if common.get(name) is not None}
    write(line.level, text, {**common, **counted}, told)


_COMMON = frozenset(
    {"queue", "maxAttempts", "errorCode", "errorReason", "isRetryable", "kind", "fingerprint", "reason"}
    | {"finalStatus", "deadlineS", "hook", "on", "error"}
)
"""What is the same in all lines of a failure."""


def _of_queue(event: Any) -> Hashable:
    return type(event), event.delivery.message.queue


def _of_failure(event: Any) -> Hashable:
    failure: Failure | None = event.failure
    return type(event), event.delivery.message.queue, "" if failure is None else failure.fingerprint


def _of_hook(event: Any) -> Hashable:
    return type(event), event.hook, event.on


_SAME: Mapping[type, Callable[[Any], Hashable]] = {
    events.Completed: _of_queue,
    events.RetryScheduled: _of_failure,
    events.Buried: _of_failure,
    events.Released: _of_failure,
    events.SettleRefused: _of_queue,
    events.HandlerOverran: _of_queue,
    events.HookFailed: _of_hook,
}
"""Which events are counted when they repeat, and what counts as the same: of one queue, with one failure."""
