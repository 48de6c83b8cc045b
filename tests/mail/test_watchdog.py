"""The timer of a connection, on a clock of the test's own."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import pytest

from redrive.mail.smtp.watchdog import Watchdog


class Timer:
    def __init__(self, at: float, callback: Callable[[], None]) -> None:
        self.at, self.callback, self.cancelled = at, callback, False

    def when(self) -> float:
        return self.at

    def cancel(self) -> None:
        self.cancelled = True


class Clock:
    """The two methods of an event loop that a watchdog uses."""

    def __init__(self) -> None:
        self.now = 0.0
        self.timers: list[Timer] = []

    def time(self) -> float:
        return self.now

    def call_at(self, at: float, callback: Callable[[], None]) -> Timer:
        self.timers.append(Timer(at, callback))
        return self.timers[-1]

    def move_to(self, now: float) -> None:
        """Each timer that is due fires at its own instant, those set meanwhile included."""
        while due := [timer for timer in self.timers if timer.at <= now and not timer.cancelled]:
            timer = min(due, key=Timer.when)
            self.timers.remove(timer)
            self.now = max(self.now, timer.at)
            timer.callback()
        self.now = now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def expired() -> list[float]:
    return []


@pytest.fixture
def watchdog(clock: Clock, expired: list[float]) -> Watchdog:
    return Watchdog(cast("object", clock), expired.append)  # type: ignore[arg-type]


def test_it_expires_at_its_limit(watchdog: Watchdog, clock: Clock, expired: list[float]) -> None:
    watchdog.watch(10)
    clock.move_to(9.9)
    assert expired == []
    clock.move_to(10)
    assert expired == [10]


def test_a_later_deadline_sets_no_timer(watchdog: Watchdog, clock: Clock, expired: list[float]) -> None:
    watchdog.watch(10)
    for now in range(1, 9):
        clock.move_to(now)
        watchdog.watch(10)
    assert len(clock.timers) == 1
    clock.move_to(17.9)
    assert expired == []
    clock.move_to(18)
    assert expired == [10]


def test_an_earlier_deadline_counts(watchdog: Watchdog, clock: Clock, expired: list[float]) -> None:
    watchdog.watch(600)
    clock.move_to(1)
    watchdog.watch(5)
    clock.move_to(6)
    assert expired == [5]


def test_stopped_it_never_expires(watchdog: Watchdog, clock: Clock, expired: list[float]) -> None:
    watchdog.watch(10)
    watchdog.stop()
    clock.move_to(100)
    assert expired == []
