"""Retry delays and profiles: the printed ranges, the values of each profile, and every wrong policy."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redrive.core.errors import ConfigurationError
from redrive.core.retry import (
    PROFILES,
    Backoff,
    RetryPolicy,
    UncertainPolicy,
    delay_s,
    delay_table,
    plain_delay_s,
)

R1_RANGES_MS = [
    (1, 750, 1_250),
    (2, 1_500, 2_500),
    (3, 3_000, 5_000),
    (4, 6_000, 10_000),
    (5, 12_000, 20_000),
    (6, 24_000, 40_000),
    (7, 45_000, 75_000),
    (8, 45_000, 75_000),
    (1_000, 45_000, 75_000),
    (10**18, 45_000, 75_000),
]

policies = st.builds(
    RetryPolicy,
    attempts=st.none() | st.integers(1, 1_000),
    base_s=st.floats(0.001, 3_600),
    cap_s=st.floats(3_600, 1e6),
    backoff=st.sampled_from(Backoff),
    jitter=st.floats(0, 0.99),
)
attempts = st.integers(1, 10**18)
jitters = st.floats(0, 1, exclude_max=True)


@pytest.mark.parametrize(("failed", "low", "high"), R1_RANGES_MS)
def test_the_delay_is_in_the_printed_range(failed: int, low: int, high: int) -> None:
    policy = RetryPolicy()
    assert delay_s(policy, failed, 0.0) * 1000 == low
    assert delay_s(policy, failed, 0.5) * 1000 == (low + high) / 2
    assert delay_s(policy, failed, 1.0) * 1000 == high


@pytest.mark.parametrize(
    ("name", "tries", "base_s", "cap_s", "ttl_s"),
    [
        ("production", 5, 1.0, 60.0, 86_400.0),
        ("development", 3, 0.5, 30.0, 86_400.0),
        ("mta", None, 300.0, 14_400.0, 259_200.0),
    ],
)
def test_a_profile_has_its_values(
    name: str, tries: int | None, base_s: float, cap_s: float, ttl_s: float
) -> None:
    policy = PROFILES[name]
    assert (policy.attempts, policy.base_s, policy.cap_s, policy.ttl_s) == (tries, base_s, cap_s, ttl_s)
    assert (policy.backoff, policy.jitter) == (Backoff.EXPONENTIAL, 0.25)


def test_production_is_the_default_and_there_are_three_profiles() -> None:
    assert PROFILES["production"] == RetryPolicy()
    assert set(PROFILES) == {"production", "development", "mta"}


@pytest.mark.parametrize(
    ("backoff", "delays"),
    [
        (Backoff.EXPONENTIAL, [2, 4, 8, 10, 10]),
        (Backoff.LINEAR, [2, 4, 6, 8, 10, 10]),
        (Backoff.FIXED, [2, 2, 2, 2]),
    ],
)
def test_each_backoff_grows_in_its_way_up_to_the_cap(backoff: Backoff, delays: list[float]) -> None:
    policy = RetryPolicy(base_s=2.0, cap_s=10.0, backoff=backoff)
    assert [plain_delay_s(policy, failed) for failed in range(1, len(delays) + 1)] == delays


@given(policies, attempts, jitters)
def test_a_delay_is_finite_and_within_its_jitter(policy: RetryPolicy, failed: int, jitter: float) -> None:
    plain = plain_delay_s(policy, failed)
    delay = delay_s(policy, failed, jitter)
    assert math.isfinite(delay)
    assert 0 < plain <= policy.cap_s
    assert plain * (1 - policy.jitter) * 0.999 <= delay <= plain * (1 + policy.jitter) * 1.001


@given(policies, st.integers(1, 10**6))
def test_a_delay_never_shrinks_with_more_failures(policy: RetryPolicy, failed: int) -> None:
    assert plain_delay_s(policy, failed) <= plain_delay_s(policy, failed + 1)


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"attempts": 0}, "attempts"),
        ({"attempts": -1}, "attempts"),
        ({"base_s": 0}, "base_s"),
        ({"base_s": -1.0}, "base_s"),
        ({"base_s": 10.0, "cap_s": 9.0}, "cap_s"),
        ({"jitter": -0.1}, "jitter"),
        ({"jitter": 1.0}, "jitter"),
        ({"ttl_s": 0}, "ttl_s"),
    ],
)
def test_a_wrong_policy_is_refused_by_name(fields: dict[str, float], named: str) -> None:
    with pytest.raises(ConfigurationError, match=named):
        RetryPolicy(**fields)  # type: ignore[arg-type]


def test_words_are_taken_for_choices() -> None:
    policy = RetryPolicy(backoff="linear", uncertain="bury")  # type: ignore[arg-type]
    assert (policy.backoff, policy.uncertain) == (Backoff.LINEAR, UncertainPolicy.BURY)
    with pytest.raises(ValueError, match="quadratic"):
        RetryPolicy(backoff="quadratic")  # type: ignore[arg-type]


def test_the_published_table_is_made_of_the_delays() -> None:
    lines = delay_table(RetryPolicy()).splitlines()
    assert len(lines) == 2 + 7
    assert lines[2] == "| 1 | 1,000 ms | 750-1,250 ms |"
    assert lines[7] == "| 6 | 32,000 ms | 24,000-40,000 ms |"
    assert lines[8] == "| 7+ | 60,000 ms | 45,000-75,000 ms |"
