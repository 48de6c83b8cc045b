"""Rates: how they are written, and how many may go in a period."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redrive.core.errors import ConfigurationError
from redrive.core.limits import Rate, Window, free_at, reserve

MINUTELY = Rate(100, 60.0)


@pytest.mark.parametrize(
    ("text", "rate"),
    [
        ("100/min", MINUTELY),
        ("100/minute", MINUTELY),
        (" 100 / MIN ", MINUTELY),
        ("20/s", Rate(20, 1.0)),
        ("20/second", Rate(20, 1.0)),
        ("5000/hour", Rate(5_000, 3_600.0)),
        ("1/h", Rate(1, 3_600.0)),
    ],
)
def test_a_rate_is_read_as_written(text: str, rate: Rate) -> None:
    assert Rate.parse(text) == rate


@pytest.mark.parametrize("text", ["", "100", "/min", "100/day", "-1/s", "1.5/s", "1/s/s", "1/ss", "٣/s"])
def test_what_is_not_a_rate_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match="rate"):
        Rate.parse(text)


@pytest.mark.parametrize(("count", "period_s"), [(0, 1.0), (-1, 1.0), (1, 0.0), (1, -1.0)])
def test_an_impossible_rate_is_refused(count: int, period_s: float) -> None:
    with pytest.raises(ConfigurationError, match="rate"):
        Rate(count, period_s)


def test_a_rate_of_zero_is_refused_when_written() -> None:
    with pytest.raises(ConfigurationError, match="rate"):
        Rate.parse("0/s")


def test_a_period_begins_with_its_first_hand_out() -> None:
    reserved = reserve(MINUTELY, Window(), 1_000_000, 30)
    assert (reserved.granted, reserved.window, reserved.next_at) == (30, Window(1_000_000, 30), None)


def test_a_used_up_period_grants_nothing_until_it_ends() -> None:
    full = Window(1_000_000, 100)
    refused = reserve(MINUTELY, full, 1_059_999, 5)
    assert (refused.granted, refused.window, refused.next_at) == (0, full, 1_060_000)
    assert reserve(MINUTELY, full, 1_060_000, 5).granted == 5


def test_a_part_of_what_is_wanted_is_granted() -> None:
    reserved = reserve(MINUTELY, Window(1_000_000, 98), 1_000_500, 5)
    assert (reserved.granted, reserved.next_at) == (2, 1_060_000)


def test_a_clock_that_went_back_begins_a_new_period() -> None:
    reserved = reserve(MINUTELY, Window(1_000_000, 100), 900_000, 5)
    assert (reserved.granted, reserved.window.began_at) == (5, 900_000)


def test_a_rate_lowered_below_what_was_used_grants_nothing() -> None:
    used = Window(1_000_000, 100)
    reserved = reserve(Rate(10, 60.0), used, 1_000_500, 5)
    assert (reserved.granted, reserved.window, reserved.next_at) == (0, used, 1_060_000)


@pytest.mark.parametrize(
    ("rate", "window", "expected"),
    [
        (None, Window(1_000_000, 10**6), 0),
        (MINUTELY, Window(), 0),
        (MINUTELY, Window(1_000_000, 99), 0),
        (MINUTELY, Window(1_000_000, 100), 1_060_000),
        (Rate(10, 60.0), Window(1_000_000, 100), 1_060_000),
    ],
)
def test_a_used_up_period_is_free_again_at_its_end(rate: Rate | None, window: Window, expected: int) -> None:
    assert free_at(rate, window) == expected


@given(st.integers(1, 5), st.integers(0, 5), st.integers(0, 120_000))
def test_what_is_free_is_granted_and_what_is_not_is_refused(count: int, used: int, passed_ms: int) -> None:
    rate, window, now = Rate(count, 60.0), Window(1_000_000, used), 1_000_000 + passed_ms
    assert (reserve(rate, window, now, 1).granted == 1) is (free_at(rate, window) <= now)


@given(
    st.integers(1, 50),
    st.lists(st.tuples(st.integers(0, 30_000), st.integers(0, 40)), min_size=1, max_size=60),
)
def test_no_period_hands_out_more_than_its_count(count: int, steps: list[tuple[int, int]]) -> None:
    rate = Rate(count, 60.0)
    window, now = Window(), 10**12
    handed_out: dict[int, int] = {}
    for pause, wanted in steps:
        now += pause
        reserved = reserve(rate, window, now, wanted)
        window = reserved.window
        assert 0 <= reserved.granted <= wanted
        handed_out[window.began_at] = handed_out.get(window.began_at, 0) + reserved.granted
        assert reserved.granted == wanted or reserved.next_at is not None
    assert max(handed_out.values()) <= count
