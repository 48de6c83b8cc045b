"""From what happened to what we do about it: the only place that makes a Verdict.

An Outcome is what an attempt came to; a Verdict is what the store then applies in one guarded
statement. `decide` knows the whole rule: attempts, time to live, crashes, uncertainty.
"""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum
from typing import assert_never

from msgspec import Struct

from redrive.core.failure import Failure, Kind, Scope
from redrive.core.message import Delivery, Progress
from redrive.core.retry import RetryPolicy, UncertainPolicy, delay_s, spread_after_s, spread_s
from redrive.core.values import LONGEST

CRASH_LIMIT = 3
PROBE_S = 30.0
_LONGEST_MS = round(1000 * LONGEST.total_seconds())


class Reason(StrEnum):
    """Why a message is a dead letter."""

    PERMANENT = "permanent"
    BOUNCED = "bounced"
    EXHAUSTED = "exhausted"
    EXPIRED = "expired"
    WORKER_LOST = "worker lost"
    POISON = "poison"
    UNCERTAIN = "uncertain"


class Done(Struct, frozen=True, gc=False):
    """The handler returned."""


class Failed(Struct, frozen=True, gc=False):
    """The attempt failed; `failure.kind` says how. `not_before_at` is the earliest next attempt."""

    failure: Failure
    not_before_at: int | None = None


class Deferred(Struct, frozen=True, gc=False):
    """Not now: asked for later, rate limited, or given back by a draining worker. No attempt is counted."""

    until_at: int


class Held(Struct, frozen=True, gc=False):
    """Our own configuration is wrong: every message of this lane would fail alike."""

    failure: Failure


class Unreadable(Struct, frozen=True, gc=False):
    """The record or the payload cannot be decoded: no attempt can help."""

    failure: Failure


Outcome = Done | Failed | Deferred | Held | Unreadable


class Complete(Struct, frozen=True, gc=False):
    """Finished: the body goes, a finished record stays."""


class RetryAt(Struct, frozen=True, gc=False):
    """Wait until `due_at`; the attempt counts, its failure is recorded, crashes are cleared."""

    due_at: int
    failure: Failure


class Release(Struct, frozen=True, gc=False):
    """Back to waiting, the attempt given back. With a failure (a lost lease): crashes + 1, a suspect."""

    due_at: int
    failure: Failure | None = None


class Bury(Struct, frozen=True, gc=False):
    """A dead letter, in the same step that ends the attempt."""

    reason: Reason
    failure: Failure


class HoldLane(Struct, frozen=True, gc=False):
    """Back to waiting, the attempt given back, and its lane held until one message gets through.

    A held lane hands out one message at a time, not before `probe_at`; `reason` is kept with the lane.
    Complete, RetryAt or Bury of a message of the lane ends the hold.
    """

    probe_at: int
    reason: str


Verdict = Complete | RetryAt | Release | Bury | HoldLane


class Settlement(Struct, frozen=True, gc=False):
    """One verdict for one delivery; the delivery's token proves the right to it."""

    delivery: Delivery
    verdict: Verdict


def decide(outcome: Outcome, progress: Progress, policy: RetryPolicy, *, now: int, jitter: float) -> Verdict:
    """The verdict on an attempt. `now` is the store's clock, `jitter` drawn from [0, 1)."""
    match outcome:
        case Done():
            return Complete()
        case Deferred(until_at=until_at):
            return Release(until_at)
        case Held(failure=failure):
            return HoldLane(now + round(1000 * spread_s(policy, PROBE_S, jitter)), failure.reason)
        case Unreadable(failure=failure):
            return Bury(Reason.POISON, failure)
        case Failed(failure=failure):
            return _judge(outcome, failure, progress, policy, now, jitter)
    assert_never(outcome)


def _judge(
    failed: Failed, failure: Failure, progress: Progress, policy: RetryPolicy, now: int, jitter: float
) -> Verdict:
    match failure.kind:
        case Kind.PERMANENT:
            bounced = failure.scope is Scope.RECIPIENT
            return Bury(Reason.BOUNCED if bounced else Reason.PERMANENT, failure)
        case Kind.EXPIRED:
            return Bury(Reason.EXPIRED, failure)
        case Kind.LOST:
            if progress.crashes + 1 >= CRASH_LIMIT:
                return Bury(Reason.WORKER_LOST, failure)
            return Release(now, failure)
        case Kind.UNCERTAIN if policy.uncertain is UncertainPolicy.BURY:
            return Bury(Reason.UNCERTAIN, failure)
        case Kind.TEMPORARY | Kind.UNCERTAIN:
            return _retry(failed, failure, progress, policy, now, jitter)
    assert_never(failure.kind)


def _retry(
    failed: Failed, failure: Failure, progress: Progress, policy: RetryPolicy, now: int, jitter: float
) -> Verdict:
    if policy.attempts is not None and progress.attempts >= policy.attempts:
        uncertain = failure.kind is Kind.UNCERTAIN
        return Bury(Reason.UNCERTAIN if uncertain else Reason.EXHAUSTED, failure)
    delay_ms, asked = round(1000 * delay_s(policy, progress.attempts, jitter)), False
    if failed.not_before_at is not None:
        asked_ms = round(spread_after_s(policy, max(0, failed.not_before_at - now), jitter))
        delay_ms, asked = max(delay_ms, asked_ms), asked_ms > delay_ms
    delay_ms = min(delay_ms, _LONGEST_MS)
    return RetryAt(now + delay_ms, replace(failure, delay_ms=delay_ms, delay_asked=asked))
