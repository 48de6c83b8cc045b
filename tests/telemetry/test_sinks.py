"""Who hears of events: the sinks that the settings name, and those that code adds."""

from __future__ import annotations

import pytest

from redrive import Redrive
from redrive.config import Settings
from redrive.core.errors import ConfigurationError
from redrive.core.settings import TelemetrySettings
from redrive.telemetry.events import CleanedUp, Event, Telemetry
from redrive.wiring import make_sinks


def test_an_unknown_sink_is_refused_before_anything_runs() -> None:
    with pytest.raises(ConfigurationError, match="there is no sink 'grafite'"):
        Redrive(settings=Settings(telemetry=TelemetrySettings(sinks="logs, grafite")))


def test_no_sink_at_all_can_be_chosen() -> None:
    assert make_sinks(TelemetrySettings(sinks="")) == []
    assert len(make_sinks(TelemetrySettings())) == 1


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
    Telemetry([broken, told.append]).emit(CleanedUp(1))
    assert told == [CleanedUp(1)]
    assert "the work goes on" in caplog.text
