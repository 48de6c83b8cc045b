"""An outage of the relay: growing pauses, mails that come back spread out, and one story in the log."""

from __future__ import annotations

import logging
import random
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from redrive.mail.outage import Outage
from redrive.telemetry.logs import log_event


@dataclass
class Site:
    """A relay that is down, under a clock of the test's own."""

    now_s: float = 1_000.0
    draws: random.Random = field(default_factory=lambda: random.Random(7))  # noqa: S311 - repeatable

    def __post_init__(self) -> None:
        self.outage = Outage("smtp://relay", lambda: self.now_s, self.draws.random, log_event)


@pytest.fixture
def site() -> Site:
    return Site()


@pytest.fixture
def said(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    with caplog.at_level(logging.DEBUG, "redrive"):
        yield caplog


def _lines(said: pytest.LogCaptureFixture) -> list[str]:
    return [str(record.__dict__["summary"]) for record in said.records]


def test_mails_that_fail_together_do_not_come_back_together(site: Site) -> None:
    waits = [site.outage.failed(str(number), "refused").total_seconds() for number in range(1_000)]
    assert len(set(waits)) > 900
    assert 1.0 <= min(waits) < max(waits) <= 2.0
    put_off = [site.outage.wait(str(number)) for number in range(1_000)]
    assert len(set(put_off)) > 900


def test_the_pause_grows_to_a_minute_and_a_failure_within_it_does_not_lengthen_it(site: Site) -> None:
    longest_s = 0.0
    for number in range(20):
        wait_s = site.outage.failed(str(number), "refused").total_seconds()
        assert wait_s >= site.outage.failed("brother", "refused").total_seconds() - 30
        longest_s = max(longest_s, wait_s)
        site.now_s += 200
        assert site.outage.wait("any") is None
    assert 60 <= longest_s <= 120


def test_one_outage_is_told_once_with_how_many_wait_and_once_when_it_is_over(
    site: Site, said: pytest.LogCaptureFixture
) -> None:
    for number in range(500):
        site.outage.failed(str(number), "refused")
    assert _lines(said) == ["Mail relay cannot be reached, mails wait"]
    for minute in range(120):
        site.now_s += 60
        site.outage.failed(str(minute), "refused")
        for number in range(500):
            site.outage.wait(str(number))
    assert 2 <= len(said.records) <= 10
    assert set(_lines(said)[1:]) == {"Mail relay still cannot be reached, mails wait"}
    site.outage.worked()
    site.outage.worked()
    assert _lines(said)[-1] == "Mail relay answers again"
    assert said.records[-1].__dict__["fields"] == {
        "relay": "smtp://relay",
        "waiting": 500,
        "lastedS": 7_200.0,
    }


def test_the_next_outage_begins_small_again(site: Site, said: pytest.LogCaptureFixture) -> None:
    for _ in range(5):
        site.outage.failed("one", "refused")
        site.now_s += 100
    site.outage.worked()
    assert site.outage.wait("one") is None
    assert site.outage.failed("one", "refused").total_seconds() <= 2.0
    assert _lines(said).count("Mail relay cannot be reached, mails wait") == 2


def test_while_it_lasts_there_is_a_story_for_alerts_and_none_afterwards(site: Site) -> None:
    assert site.outage.story is None
    site.outage.failed("a", "connection refused")
    site.outage.failed("b", "connection refused")
    assert site.outage.story == {"name": "smtp://relay", "problem": "connection refused", "waiting": 2}
    site.outage.worked()
    assert site.outage.story is None
