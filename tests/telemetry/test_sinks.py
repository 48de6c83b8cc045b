"""Who hears of events: the sinks that the settings name, and those that code adds."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from redrive import Redrive
from redrive.config import Settings
from redrive.core.errors import ConfigurationError
from redrive.core.settings import TelemetrySettings
from redrive.telemetry.door import Telemetry
from redrive.telemetry.events import CleanedUp, Event
from redrive.telemetry.log_sink import LogSink
from redrive.wiring import make_sinks


def test_an_unknown_sink_is_refused_before_anything_runs() -> None:
    with pytest.raises(ConfigurationError, match="there is no sink 'grafite'"):
        Redrive(settings=Settings(telemetry=TelemetrySettings(sinks="logs, grafite")))


def test_no_sink_at_all_can_be_chosen() -> None:
    told: list[Event] = []
    assert make_sinks(Settings(telemetry=TelemetrySettings(sinks="")), told.append) == []
    logs, totals = make_sinks(Settings(), told.append)
    assert isinstance(logs, LogSink)
    assert totals == told.append


def test_new_settings_keep_the_sinks_that_code_added() -> None:
    app, told = Redrive(settings=Settings()), list[Event]()
    app.telemetry.add(told.append)
    app.configure(Settings(telemetry=TelemetrySettings(sinks="")))
    app.telemetry.emit(CleanedUp(1))
    assert told == [CleanedUp(1)]


def test_a_sink_that_fails_keeps_no_other_from_hearing(caplog: pytest.LogCaptureFixture) -> None:
    def broken(_: Event) -> None:
        raise ValueError("a bug")

    told: list[Event] = []
    telemetry = Telemetry([broken, told.append])
    for number in range(3):
        telemetry.emit(CleanedUp(number))
    assert told == [CleanedUp(0), CleanedUp(1), CleanedUp(2)]
    assert caplog.text.count("the work goes on") == 1


def test_what_happened_together_reaches_every_sink_in_order_whatever_one_raises() -> None:
    def choosy(event: Event) -> None:
        if event == CleanedUp(1):
            raise ValueError("a bug")
        heard.append(event)

    class Adding:
        """Hears one call for all."""

        def __init__(self) -> None:
            self.batches: list[list[Event]] = []

        def __call__(self, event: Event) -> None:
            self.hear_all([event])

        def hear_all(self, events: Sequence[Event]) -> None:
            self.batches.append(list(events))

    heard, told, adding = list[Event](), list[Event](), Adding()
    Telemetry([choosy, adding, told.append]).emit_all([CleanedUp(0), CleanedUp(1), CleanedUp(2)])
    assert heard == [CleanedUp(0), CleanedUp(2)]
    assert adding.batches == [told] == [[CleanedUp(0), CleanedUp(1), CleanedUp(2)]]
