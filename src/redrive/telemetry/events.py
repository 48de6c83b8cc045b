"""What can happen, one frozen class an event, and the door that hands them to the sinks."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass

from redrive.core.failure import Failure
from redrive.core.message import Delivery
from redrive.core.verdict import Reason


@dataclass(frozen=True, slots=True)
class Completed:
    """An attempt ended well."""

    delivery: Delivery
    duration_s: float


@dataclass(frozen=True, slots=True)
class RetryScheduled:
    """An attempt failed and another will follow after `delay_ms`."""

    delivery: Delivery
    failure: Failure
    max_attempts: int | None
    delay_ms: int


@dataclass(frozen=True, slots=True)
class Buried:
    """A message became a dead letter."""

    delivery: Delivery
    failure: Failure
    reason: Reason
    max_attempts: int | None


@dataclass(frozen=True, slots=True)
class Released:
    """A message was given back without counting an attempt; with a failure, its worker was lost."""

    delivery: Delivery
    delay_ms: int
    failure: Failure | None


@dataclass(frozen=True, slots=True)
class LaneHeld:
    """A tenant's lane is held: its messages wait until a probe gets through."""

    delivery: Delivery
    reason: str


@dataclass(frozen=True, slots=True)
class LaneResumed:
    """A probe got through: a held lane runs again."""

    delivery: Delivery


@dataclass(frozen=True, slots=True)
class SettleRefused:
    """The lease was no longer ours: whatever the handler did, the store did not change."""

    delivery: Delivery


@dataclass(frozen=True, slots=True)
class LeaseLost:
    """A lease could not be extended: someone else may hold its messages now."""

    queue: str
    token: str


@dataclass(frozen=True, slots=True)
class HandlerOverran:
    """A `def` handler passed its deadline; it keeps its slot and lease until its thread ends."""

    delivery: Delivery
    deadline_s: float


@dataclass(frozen=True, slots=True)
class LoopLagged:
    """The event loop was blocked for `lag_s`."""

    lag_s: float


@dataclass(frozen=True, slots=True)
class StoreTrouble:
    """The store did not answer while `doing`; it is tried again."""

    doing: str
    error: str
    failures: int


@dataclass(frozen=True, slots=True)
class StoreBack:
    """The store answers again after `failures` tries."""

    doing: str
    failures: int


@dataclass(frozen=True, slots=True)
class LoopFailed:
    """A loop of ours met an error it does not know; it goes on."""

    doing: str
    error: BaseException


@dataclass(frozen=True, slots=True)
class WorkerStarted:
    """A worker serves these queues."""

    worker: str
    queues: tuple[str, ...]
    store: str
    durability: str


@dataclass(frozen=True, slots=True)
class WorkerStopping:
    """A worker was asked to stop: `running` messages that it took have up to `drain_s` to finish."""

    worker: str
    running: int
    drain_s: float


@dataclass(frozen=True, slots=True)
class WorkerStopped:
    """A worker stopped; `released` messages were given back unfinished."""

    worker: str
    released: int


@dataclass(frozen=True, slots=True)
class CleanedUp:
    """Finished records left for age or number."""

    count: int


@dataclass(frozen=True, slots=True)
class RelayLost:
    """The mail relay cannot be reached: mails wait. Said again at growing intervals while it lasts."""

    relay: str
    error: str
    waiting: int
    lasted_s: float


@dataclass(frozen=True, slots=True)
class RelayBack:
    """The mail relay answers again; `waiting` mails had been put off."""

    relay: str
    waiting: int
    lasted_s: float


@dataclass(frozen=True, slots=True)
class StoreRefusing:
    """The store takes no new messages, for want of room; accepted work goes on."""

    error: str


@dataclass(frozen=True, slots=True)
class StoreAccepting:
    """The store takes new messages again."""


@dataclass(frozen=True, slots=True)
class LettersLeaving:
    """Dead letters of a queue will leave for an archive in `folder` at `leave_at`."""

    queue: str
    count: int
    leave_at: int
    folder: str


@dataclass(frozen=True, slots=True)
class LettersArchived:
    """Dead letters of a queue left for age or number, to an archive."""

    queue: str
    count: int
    path: str


@dataclass(frozen=True, slots=True)
class RetentionFailed:
    """Dead letters of a queue should have left and stayed, because no archive could be written."""

    queue: str
    error: str


@dataclass(frozen=True, slots=True)
class OperationHalted:
    """An operation stopped by itself, because of what came back or because it cannot go on."""

    operation: str
    kind: str
    state: str
    why: str


@dataclass(frozen=True, slots=True)
class OperationEnded:
    """An operation finished, or was cancelled."""

    operation: str
    kind: str
    state: str
    handled: int
    total: int


MessageEvent = (
    Completed | RetryScheduled | Buried | Released | LaneHeld | LaneResumed | SettleRefused | HandlerOverran
)
ProcessEvent = (
    LeaseLost
    | LoopLagged
    | StoreTrouble
    | StoreBack
    | LoopFailed
    | WorkerStarted
    | WorkerStopping
    | WorkerStopped
    | CleanedUp
)
DoorEvent = RelayLost | RelayBack | StoreRefusing | StoreAccepting
OfficeEvent = LettersLeaving | LettersArchived | RetentionFailed | OperationHalted | OperationEnded
Event = MessageEvent | ProcessEvent | DoorEvent | OfficeEvent
Concern = LaneHeld | RelayLost | StoreRefusing | LettersLeaving | RetentionFailed | OperationHalted
"""What an operator should hear of, whatever else is logged or counted."""

Sink = Callable[[Event], None]


class Telemetry:
    """Hands each event to every sink: those of the settings first, then those that code added."""

    def __init__(self, sinks: Iterable[Sink] = ()) -> None:
        self._configured = list(sinks)
        self._added: list[Sink] = []
        self._sinks = self._configured

    def add(self, sink: Sink) -> None:
        """Another sink, for the events from now on."""
        self._added.append(sink)
        self._sinks = [*self._configured, *self._added]

    def configure(self, sinks: Iterable[Sink]) -> None:
        """Replace the sinks of the settings; added ones stay."""
        self._configured = list(sinks)
        self._sinks = [*self._configured, *self._added]

    def emit(self, event: Event) -> None:
        """Tell what happened. Never raises."""
        for sink in self._sinks:
            try:
                sink(event)
            except BaseException:
                with suppress(BaseException):
                    logging.getLogger("redrive").exception("a telemetry sink failed; the work goes on")
