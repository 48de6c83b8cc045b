"""What can happen, one frozen class an event; `door.py` hands them to the sinks."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct

from redrive.core.failure import Failure
from redrive.core.message import Delivery
from redrive.core.verdict import Reason


class BatchAccepted(Struct, frozen=True):
    """A queue's messages were accepted, in one durable write."""

    queue: str
    count: int


class BatchClaimed(Struct, frozen=True):
    """A claim brought a queue's messages, which were here `at` an instant of the store's clock."""

    queue: str
    deliveries: Sequence[Delivery]
    at: int


class BatchSettled(Struct, frozen=True):
    """The store took the outcomes of `count` attempts in one call."""

    count: int
    duration_s: float


class Completed(Struct, frozen=True, gc=False):
    """An attempt ended well."""

    delivery: Delivery
    duration_s: float


class RetryScheduled(Struct, frozen=True):
    """An attempt failed and another will follow after `delay_ms`; without a duration, no handler ran."""

    delivery: Delivery
    failure: Failure
    max_attempts: int | None
    delay_ms: int
    duration_s: float = 0.0


class Buried(Struct, frozen=True):
    """A message became a dead letter; without a duration, no handler ran."""

    delivery: Delivery
    failure: Failure
    reason: Reason
    max_attempts: int | None
    duration_s: float = 0.0


class Released(Struct, frozen=True):
    """A message was given back without counting an attempt; with a failure, its worker was lost."""

    delivery: Delivery
    delay_ms: int
    failure: Failure | None


class LaneHeld(Struct, frozen=True):
    """A tenant's lane is held: its messages wait until a probe gets through."""

    delivery: Delivery
    reason: str


class LaneResumed(Struct, frozen=True):
    """A probe got through: a held lane runs again."""

    delivery: Delivery


class SettleRefused(Struct, frozen=True):
    """The lease was no longer ours: whatever the handler did, the store did not change."""

    delivery: Delivery


class HandlerRaised(Struct, frozen=True):
    """A handler raised; what becomes of its message follows."""

    delivery: Delivery
    failure: Failure
    error: BaseException


class LeasesExtended(Struct, frozen=True):
    """So many leases hold for longer."""

    count: int


class LeaseLost(Struct, frozen=True):
    """A lease could not be extended: someone else may hold its messages now."""

    queue: str
    token: str


class HandlerOverran(Struct, frozen=True):
    """A `def` handler passed its deadline; it keeps its slot and lease until its thread ends."""

    delivery: Delivery
    deadline_s: float


class LoopLagged(Struct, frozen=True):
    """The event loop was blocked for `lag_s`."""

    lag_s: float


class StoreTrouble(Struct, frozen=True):
    """The store did not answer while `doing`; it is tried again."""

    doing: str
    error: str
    failures: int


class StoreBack(Struct, frozen=True):
    """The store answers again after `failures` tries."""

    doing: str
    failures: int


class LoopFailed(Struct, frozen=True):
    """A loop of ours met an error it does not know; it goes on."""

    doing: str
    error: BaseException


class WorkerStarted(Struct, frozen=True):
    """A worker serves these queues."""

    worker: str
    queues: tuple[str, ...]
    store: str
    durability: str


class WorkerStopping(Struct, frozen=True):
    """A worker was asked to stop: `running` messages that it took have up to `drain_s` to finish."""

    worker: str
    running: int
    drain_s: float


class WorkerStopped(Struct, frozen=True):
    """A worker stopped; `released` messages were given back unfinished."""

    worker: str
    released: int


class CleanedUp(Struct, frozen=True):
    """Finished records left for age or number."""

    count: int


class RelayLost(Struct, frozen=True):
    """The mail relay cannot be reached: mails wait. Said again at growing intervals while it lasts."""

    relay: str
    error: str
    waiting: int
    lasted_s: float


class RelayBack(Struct, frozen=True):
    """The mail relay answers again; `waiting` mails had been put off."""

    relay: str
    waiting: int
    lasted_s: float


class StoreRefusing(Struct, frozen=True):
    """The store takes no new messages, for want of room; accepted work goes on."""

    error: str


class StoreAccepting(Struct, frozen=True):
    """The store takes new messages again."""


class LettersLeaving(Struct, frozen=True):
    """Dead letters of a queue will leave for an archive in `folder` at `leave_at`."""

    queue: str
    count: int
    leave_at: int
    folder: str


class LettersArchived(Struct, frozen=True):
    """Dead letters of a queue left for age or number, to an archive."""

    queue: str
    count: int
    path: str


class RetentionFailed(Struct, frozen=True):
    """Dead letters of a queue should have left and stayed, because no archive could be written."""

    queue: str
    error: str


class OperationHalted(Struct, frozen=True):
    """An operation stopped by itself, because of what came back or because it cannot go on."""

    operation: str
    kind: str
    state: str
    why: str


class OperationEnded(Struct, frozen=True):
    """An operation finished, or was cancelled."""

    operation: str
    kind: str
    state: str
    handled: int
    total: int


class AlertFired(Struct, frozen=True, kw_only=True):
    """A rule found a figure above its limit; said once, and again as a reminder where the rule has one.

    `subject` is the queue, tenant or group that it is about, empty for the whole store."""

    rule: str
    severity: str
    subject: str
    text: str
    value: float
    tenant: str | None = None
    reminder: bool = False


class AlertCleared(Struct, frozen=True):
    """What a rule told of is over; `text` is what it had said."""

    rule: str
    subject: str
    text: str
    tenant: str | None = None


class ChannelFailed(Struct, frozen=True):
    """A channel did not take a notice; it is kept and tried again."""

    channel: str
    error: str
    attempts: int


class ChannelBack(Struct, frozen=True):
    """A channel takes notices again after `attempts` tries."""

    channel: str
    attempts: int


class NoticeDropped(Struct, frozen=True):
    """A notice of an alert was given up after a day: its channel never took it."""

    channel: str
    rule: str
    text: str


class HookFailed(Struct, frozen=True):
    """A hook raised, or took too long."""

    hook: str
    on: str
    error: str


class HookDropped(Struct, frozen=True):
    """A hook is too slow: `count` events did not reach it."""

    hook: str
    on: str
    count: int


MessageEvent = (
    Completed
    | RetryScheduled
    | Buried
    | Released
    | LaneHeld
    | LaneResumed
    | SettleRefused
    | HandlerOverran
    | HandlerRaised
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
BatchEvent = BatchAccepted | BatchClaimed | BatchSettled | LeasesExtended
DoorEvent = RelayLost | RelayBack | StoreRefusing | StoreAccepting
HookEvent = HookFailed | HookDropped
OfficeEvent = LettersLeaving | LettersArchived | RetentionFailed | OperationHalted | OperationEnded
AlertEvent = AlertFired | AlertCleared | ChannelFailed | ChannelBack | NoticeDropped
Event = MessageEvent | BatchEvent | ProcessEvent | DoorEvent | HookEvent | OfficeEvent | AlertEvent
Concern = (
    LaneHeld
    | RelayLost
    | StoreRefusing
    | LettersLeaving
    | RetentionFailed
    | OperationHalted
    | AlertFired
    | ChannelFailed
    | NoticeDropped
)
"""What an operator should hear of, whatever else is logged or counted."""

Sink = Callable[[Event], None]
