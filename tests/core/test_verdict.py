"""decide(): every outcome, by attempts, crashes and policy."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from redrive.core.failure import Failure, Kind, Scope
from redrive.core.lifecycle import State
from redrive.core.message import Progress
from redrive.core.retry import RetryPolicy, UncertainPolicy, delay_s
from redrive.core.verdict import (
    CRASH_LIMIT,
    PROBE_S,
    Bury,
    Complete,
    Deferred,
    Done,
    Failed,
    Held,
    HoldLane,
    Outcome,
    Reason,
    Release,
    RetryAt,
    Unreadable,
    Verdict,
    decide,
)

NOW = 1_700_000_000_000
POLICY = RetryPolicy()

policies = st.builds(
    RetryPolicy,
    attempts=st.none() | st.integers(1, 50),
    uncertain=st.sampled_from(UncertainPolicy),
)
progresses = st.builds(
    Progress,
    state=st.just(State.CLAIMED),
    due_at=st.just(NOW),
    expires_at=st.just(NOW + 1),
    attempts=st.integers(1, 10**9),
    crashes=st.integers(0, CRASH_LIMIT + 2),
)
jitters = st.floats(0, 1, exclude_max=True)


def failure(kind: Kind = Kind.TEMPORARY, scope: Scope | None = None) -> Failure:
    return Failure(NOW, 1, kind, "because", scope=scope)


def progress(attempts: int = 1, crashes: int = 0) -> Progress:
    return Progress(State.CLAIMED, NOW, NOW + 1_000, attempts=attempts, crashes=crashes)


def judge(outcome: Outcome, attempts: int = 1, crashes: int = 0, policy: RetryPolicy = POLICY) -> Verdict:
    return decide(outcome, progress(attempts, crashes), policy, now=NOW, jitter=0.5)


@given(progresses, policies, jitters)
def test_done_is_complete_whatever_went_before(at: Progress, policy: RetryPolicy, jitter: float) -> None:
    assert decide(Done(), at, policy, now=NOW, jitter=jitter) == Complete()


@given(progresses, policies, jitters, st.integers(0, 2**50))
def test_later_never_counts_and_never_buries(
    at: Progress, policy: RetryPolicy, jitter: float, until_at: int
) -> None:
    assert decide(Deferred(until_at), at, policy, now=NOW, jitter=jitter) == Release(until_at, None)


@given(progresses, policies, jitters)
def test_what_cannot_be_read_is_poison_at_once(at: Progress, policy: RetryPolicy, jitter: float) -> None:
    bad = failure()
    assert decide(Unreadable(bad), at, policy, now=NOW, jitter=jitter) == Bury(Reason.POISON, bad)


@pytest.mark.parametrize(
    ("scope", "reason"),
    [(scope, Reason.BOUNCED if scope is Scope.RECIPIENT else Reason.PERMANENT) for scope in (None, *Scope)],
)
def test_a_permanent_failure_buries_at_the_first_attempt(scope: Scope | None, reason: Reason) -> None:
    bad = failure(Kind.PERMANENT, scope)
    assert judge(Failed(bad)) == Bury(reason, bad)


@pytest.mark.parametrize("attempts", [0, 1, 5, 100])
def test_an_expired_message_is_buried_as_expired(attempts: int) -> None:
    bad = failure(Kind.EXPIRED)
    assert judge(Failed(bad), attempts) == Bury(Reason.EXPIRED, bad)


@pytest.mark.parametrize(("attempts", "delay_ms"), [(1, 1_000), (2, 2_000), (3, 4_000), (4, 8_000)])
def test_a_temporary_failure_waits_by_the_policy(attempts: int, delay_ms: int) -> None:
    bad = failure()
    assert judge(Failed(bad), attempts) == RetryAt(NOW + delay_ms, replace(bad, delay_ms=delay_ms))


@pytest.mark.parametrize("attempts", [5, 6, 10**9])
def test_the_last_attempt_buries_as_exhausted(attempts: int) -> None:
    bad = failure()
    assert judge(Failed(bad), attempts) == Bury(Reason.EXHAUSTED, bad)


@given(progresses, policies, jitters, st.sampled_from(Kind), st.none() | st.integers(0, 2**50))
def test_an_exhausted_message_is_never_tried_again(
    at: Progress, policy: RetryPolicy, jitter: float, kind: Kind, not_before_at: int | None
) -> None:
    verdict = decide(Failed(failure(kind), not_before_at), at, policy, now=NOW, jitter=jitter)
    exhausted = policy.attempts is not None and at.attempts >= policy.attempts
    if exhausted and kind is not Kind.LOST:
        assert isinstance(verdict, Bury)


@given(progresses, policies, jitters)
def test_an_unknown_error_is_temporary_and_never_permanent(
    at: Progress, policy: RetryPolicy, jitter: float
) -> None:
    verdict = decide(Failed(failure()), at, policy, now=NOW, jitter=jitter)
    if isinstance(verdict, Bury):
        assert verdict.reason is Reason.EXHAUSTED
    else:
        assert isinstance(verdict, RetryAt)


@given(progresses, jitters)
def test_without_an_attempt_limit_a_temporary_failure_always_waits(at: Progress, jitter: float) -> None:
    policy = RetryPolicy(attempts=None)
    verdict = decide(Failed(failure()), at, policy, now=NOW, jitter=jitter)
    assert isinstance(verdict, RetryAt)
    assert verdict.due_at == NOW + round(1000 * delay_s(policy, at.attempts, jitter))


@pytest.mark.parametrize(
    ("not_before_at", "due_at"), [(None, NOW + 750), (NOW, NOW + 750), (NOW + 90_000, NOW + 90_000)]
)
def test_the_handlers_earliest_instant_is_kept(not_before_at: int | None, due_at: int) -> None:
    verdict = decide(Failed(failure(), not_before_at), progress(1), RetryPolicy(), now=NOW, jitter=0.0)
    assert isinstance(verdict, RetryAt)
    assert verdict.due_at == due_at
    asked = due_at == not_before_at
    assert (verdict.failure.delay_ms, verdict.failure.delay_asked) == (due_at - NOW, asked)


@given(policies, st.lists(jitters, min_size=2, max_size=2, unique=True), st.integers(10_000, 10**8))
def test_what_was_asked_to_wait_together_comes_back_spread_and_never_earlier(
    policy: RetryPolicy, draws: list[float], asked_ms: int
) -> None:
    policy = structs.replace(policy, attempts=None)
    early, late = (
        decide(Failed(failure(), NOW + asked_ms), progress(1), policy, now=NOW, jitter=draw)
        for draw in sorted(draws)
    )
    assert isinstance(early, RetryAt)
    assert isinstance(late, RetryAt)
    assert NOW + asked_ms <= early.due_at <= late.due_at
    longest_ms = max(asked_ms, 1000 * policy.cap_s) * (1 + policy.jitter)
    assert late.due_at <= NOW + longest_ms + 1


def test_lanes_that_are_held_together_are_probed_apart() -> None:
    held = Held(failure())
    probes = [decide(held, progress(1), RetryPolicy(), now=NOW, jitter=draw / 100) for draw in range(100)]
    instants = {verdict.probe_at for verdict in probes if isinstance(verdict, HoldLane)}
    assert len(instants) == 100
    assert min(instants) >= NOW + 0.75 * 1000 * PROBE_S


@pytest.mark.parametrize("attempts", [1, 4, 5, 100])
@pytest.mark.parametrize("crashes", [0, 1, 2, 3])
def test_the_third_crash_buries_whatever_the_attempts(attempts: int, crashes: int) -> None:
    bad = failure(Kind.LOST)
    expected: Verdict = Release(NOW, bad) if crashes < 2 else Bury(Reason.WORKER_LOST, bad)
    assert judge(Failed(bad), attempts, crashes) == expected


def test_an_uncertain_attempt_is_tried_again_by_default() -> None:
    bad = failure(Kind.UNCERTAIN)
    assert judge(Failed(bad), 2) == RetryAt(NOW + 2_000, replace(bad, delay_ms=2_000))


def test_an_uncertain_last_attempt_is_buried_as_uncertain() -> None:
    bad = failure(Kind.UNCERTAIN)
    assert judge(Failed(bad), 5) == Bury(Reason.UNCERTAIN, bad)


@pytest.mark.parametrize("attempts", [1, 5, 100])
def test_an_uncertain_attempt_is_buried_where_the_policy_says_so(attempts: int) -> None:
    bad = failure(Kind.UNCERTAIN)
    policy = RetryPolicy(uncertain=UncertainPolicy.BURY)
    assert judge(Failed(bad), attempts, policy=policy) == Bury(Reason.UNCERTAIN, bad)
