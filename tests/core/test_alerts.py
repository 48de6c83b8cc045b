"""Alerts: when a rule fires, reminds and clears, by tables and for whatever readings come."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redrive.core.alert_rules import (
    DEFAULT_RULES,
    AlertSettings,
    ChannelSettings,
    make_rule,
)
from redrive.core.alerts import (
    COUNTED,
    AlertFigure,
    AlertPhase,
    AlertRule,
    AlertScope,
    AlertState,
    AlertTransition,
    Reading,
    judge,
)
from redrive.core.errors import ConfigurationError
from redrive.core.usual import WINDOWS, usual

RUNBOOK = Path(__file__).parents[2] / "docs/runbook.md"
MINUTE = 60_000
DLQ = AlertRule(name="dlq", metric=AlertFigure.DLQ, scope=AlertScope.STORE, above=100, clear=80)
LASTING = AlertRule(name="unserved", metric=AlertFigure.UNSERVED, scope=AlertScope.QUEUE, window_s=60)
SHARE = AlertRule(
    name="share",
    metric=AlertFigure.DLQ_SHARE,
    scope=AlertScope.STORE,
    above=0.02,
    clear=0.01,
    window_s=600,
    least=50,
)
REMINDING = AlertRule(
    name="dlq", metric=AlertFigure.DLQ, scope=AlertScope.STORE, above=100, clear=80, remind_s=3_600
)
FIRES, CLEARS, NOTHING, REMINDS = (
    AlertTransition.FIRES,
    AlertTransition.CLEARS,
    AlertTransition.NOTHING,
    AlertTransition.REMINDS,
)


def told(rule: AlertRule, *readings: Reading | float, apart_ms: int = MINUTE) -> list[AlertTransition]:
    """What is told of readings that come one after the other."""
    state, heard = AlertState(), []
    for number, reading in enumerate(readings):
        one = reading if isinstance(reading, Reading) else Reading("", reading)
        state, transition = judge(rule, state, one, number * apart_ms)
        heard.append(transition)
    return heard


@pytest.mark.parametrize(
    ("rule", "values", "expected"),
    [
        (DLQ, (100, 101, 500, 101), [NOTHING, FIRES, NOTHING, NOTHING]),
        (DLQ, (101, 90, 81, 80, 101), [FIRES, NOTHING, NOTHING, CLEARS, FIRES]),
        (LASTING, (5, 5, 5), [NOTHING, FIRES, NOTHING]),
        (LASTING, (5, 0, 5, 5), [NOTHING, NOTHING, NOTHING, FIRES]),
    ],
)
def test_a_rule_fires_above_its_limit_and_clears_at_its_lower_one(
    rule: AlertRule, values: tuple[float, ...], expected: list[AlertTransition]
) -> None:
    assert told(rule, *values) == expected


def test_a_share_of_few_sends_does_not_fire_and_one_that_fires_is_not_cleared_by_few() -> None:
    few, many = Reading("", 0.5, 49), Reading("", 0.5, 50)
    assert told(SHARE, few, many, few, Reading("", 0.0, 0)) == [NOTHING, FIRES, NOTHING, CLEARS]


def test_a_reminder_comes_each_time_its_span_has_passed_and_never_without_one() -> None:
    hours = [500.0] * 5
    assert told(REMINDING, *hours, apart_ms=30 * MINUTE) == [FIRES, NOTHING, REMINDS, NOTHING, REMINDS]
    assert told(DLQ, *hours, apart_ms=30 * MINUTE) == [FIRES, NOTHING, NOTHING, NOTHING, NOTHING]


def test_what_fires_in_silence_is_told_afterwards_if_it_still_fires() -> None:
    high = Reading("", 500)
    silent, heard = judge(DLQ, AlertState(), high, 0, silenced=True)
    assert (silent.phase, heard) == (AlertPhase.FIRING, NOTHING)
    assert judge(DLQ, silent, high, MINUTE)[1] is FIRES
    assert judge(DLQ, silent, Reading("", 0), MINUTE)[1] is NOTHING


def test_what_was_told_is_cleared_in_silence_too() -> None:
    fired, _ = judge(DLQ, AlertState(), Reading("", 500), 0)
    assert judge(DLQ, fired, None, MINUTE, silenced=True)[1] is CLEARS


def test_a_reading_with_a_limit_of_its_own_has_to_exceed_both() -> None:
    slow = AlertRule(name="slow", metric=AlertFigure.PROCESSING_S, scope=AlertScope.QUEUE, above=300)
    within, beyond = Reading("mail", 900, limit=1_200), Reading("mail", 1_201, limit=1_200)
    assert told(slow, within, beyond, Reading("mail", 400, limit=1_200)) == [NOTHING, FIRES, CLEARS]


def test_what_lasts_does_not_clear_because_it_has_become_usual() -> None:
    odd = AlertRule(
        name="odd", metric=AlertFigure.DEAD, scope=AlertScope.STORE, above=10, window_s=3_600, unusual=True
    )
    first, later = Reading("", 91, limit=20), Reading("", 91, limit=95)
    assert told(odd, first, later, Reading("", 20, limit=95)) == [FIRES, NOTHING, CLEARS]


def test_a_part_of_a_figure_can_fire_and_cannot_clear() -> None:
    low, high = Reading("", 0, partial=True), Reading("", 500, partial=True)
    assert told(DLQ, low, high, low, Reading("", 0)) == [NOTHING, FIRES, NOTHING, CLEARS]
    assert told(LASTING, Reading("", 5), low, Reading("", 5)) == [NOTHING, NOTHING, FIRES]


@given(
    st.lists(
        st.tuples(st.floats(0, 200), st.booleans(), st.booleans(), st.integers(1, 300_000)), max_size=40
    ),
    st.sampled_from([DLQ, LASTING, SHARE, REMINDING]),
)
def test_whatever_comes_it_fires_and_clears_in_turn(
    steps: list[tuple[float, bool, bool, int]], rule: AlertRule
) -> None:
    state, now, heard = AlertState(), 0, []
    for value, silenced, partial, passed in steps:
        now += passed
        reading = Reading("", value, 100, partial=partial)
        state, transition = judge(rule, state, reading, now, silenced=silenced)
        if transition in (FIRES, REMINDS):
            assert value > (rule.clear if rule.clear is not None else rule.above)
            assert not silenced
        if transition is CLEARS:
            assert value <= rule.above
            assert not partial
        heard.append(transition)
    turns = [one for one in heard if one in (FIRES, CLEARS)]
    assert turns == [FIRES, CLEARS] * (len(turns) // 2) + [FIRES] * (len(turns) % 2)


def test_every_default_rule_has_a_heading_of_the_runbook() -> None:
    headings = re.findall(r"^##+ (.+)$", RUNBOOK.read_text("utf-8"), re.MULTILINE)
    anchors = {re.sub(r"[^a-z0-9 -]", "", one.lower()).replace(" ", "-") for one in headings}
    assert {
        rule.name: rule.runbook for rule in DEFAULT_RULES.values() if rule.runbook[:8] != "runbook#"
    } == {}
    missing = {rule.runbook for rule in DEFAULT_RULES.values()} - {f"runbook#{one}" for one in anchors}
    assert missing == set()


def test_every_figure_is_watched_by_default() -> None:
    assert {rule.metric for rule in DEFAULT_RULES.values()} == set(AlertFigure)
    assert all(rule.window_s >= 60 for rule in DEFAULT_RULES.values() if rule.metric in COUNTED)


@pytest.mark.parametrize(
    ("name", "given", "said"),
    [
        ("dlq_hihg", {"above": 3}, "did you mean dlq_high?"),
        ("dlq_high", {"clear": 200.0}, "clear is at most above"),
        ("dlq_high", {"scope": AlertScope.GROUP}, "store, queue, tenant"),
        ("dlq_share", {"window_s": 10.0}, "60 or more"),
        ("dlq_high", {"unusual": True}, "the past is known of"),
        ("dlq_high", {"remind_s": 1.0}, "60 or more"),
        ("own", {"metric": AlertFigure.DLQ, "above": -1.0}, "0 or more"),
    ],
)
def test_a_rule_that_cannot_be_is_refused(name: str, given: dict[str, object], said: str) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(said)):
        make_rule(name, given)


def test_a_known_rule_is_changed_field_by_field_and_a_new_one_names_its_metric() -> None:
    changed = make_rule("dlq_high", {"above": 500.0})
    assert (changed.above, changed.clear, changed.runbook) == (500, 400, DEFAULT_RULES["dlq_high"].runbook)
    own = make_rule("orders", {"metric": AlertFigure.WAITING_S, "above": 30.0})
    assert (own.scope, own.above) == (AlertScope.QUEUE, 30)


def test_a_tenants_contact_hears_of_that_tenant_alone() -> None:
    channel = ChannelSettings(url="https://hooks.example/x")
    settings = AlertSettings(
        channels={"ops": channel, "acme-desk": channel}, contacts={"acme": ("acme-desk",)}
    )
    assert settings.told_of(DLQ, None) == ("ops",)
    assert settings.told_of(DLQ, "acme") == ("ops", "acme-desk")
    assert settings.told_of(DLQ, "globex") == ("ops",)
    with pytest.raises(ConfigurationError, match="did you mean ops"):
        AlertSettings(channels={"ops": channel}, contacts={"acme": ("opss",)})


@pytest.mark.parametrize(
    ("past", "value", "unusual"),
    [
        ([0] * 100 + [4] * 20, 91, True),
        ([0] * 100 + [4] * 20, 5, False),
        ([0] * 161 + [90] * 7, 91, True),
        ([0] * 161 + [90] * 7, 90, False),
        ([50, 60, 70] * 30, 80, False),
        ([50, 60, 70] * 30, 200, True),
    ],
)
def test_unusual_is_what_is_far_from_the_past_and_above_nearly_all_of_it(
    past: list[float], value: float, unusual: bool
) -> None:
    known = usual(past, 1.0)
    assert known is not None
    assert (value > known.limit) == unusual


def test_too_little_of_a_past_makes_no_habit() -> None:
    assert usual([1.0] * (WINDOWS - 1), 1.0) is None


@given(st.lists(st.floats(0, 1e6), min_size=WINDOWS, max_size=200), st.integers(0, 3))
def test_a_few_bad_windows_hardly_move_what_is_usual(past: list[float], bad: int) -> None:
    known = usual(past, 1.0)
    assert known is not None
    assert known.low <= known.high <= max(past)
    assert known.limit >= sorted(past)[len(past) // 2]
