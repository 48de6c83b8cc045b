"""The door: each event that is told goes to every sink, and nothing that a sink does reaches who told it.

A sink is called with an event. One with a `hear_all` hears what happened together in one call, so that it can
add up instead of looking at each.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

from redrive.telemetry.events import Event, Sink

if TYPE_CHECKING:
    from redrive.telemetry.traces import Traces

Told = TypeVar("Told")


class Telemetry:
    """Hands each event to every sink: those of the settings first, then those that code added.

    `traces` makes spans, which begin before there is an event; None when nothing is traced.
    """

    def __init__(self, sinks: Iterable[Sink] = (), traces: Traces | None = None) -> None:
        self.traces = traces
        self._configured = list(sinks)
        self._added: list[Sink] = []
        self._sinks = self._configured
        self._failed: set[tuple[int, type]] = set()

    def add(self, sink: Sink) -> None:
        """Another sink, for the events from now on."""
        self._added.append(sink)
        self._sinks = [*self._configured, *self._added]

    def configure(self, sinks: Iterable[Sink], traces: Traces | None = None) -> None:
        """Replace what the settings say; sinks that were added stay."""
        self.traces = traces
        self._configured = list(sinks)
        self._sinks = [*self._configured, *self._added]

    def flush(self) -> None:
        """Have sinks that hold something back, and so have a `flush`, let go of it: the app closes."""
        for sink in (*self._sinks, self.traces):
            with suppress(Exception):
                getattr(sink, "flush", lambda: None)()

    def emit(self, event: Event) -> None:
        """Tell what happened. Never raises."""
        for sink in self._sinks:
            self._hand(sink, sink, event)

    def emit_all(self, events: Sequence[Event]) -> None:
        """Tell what happened together, in order. Never raises."""
        for sink in self._sinks:
            hear_all = getattr(sink, "hear_all", None)
            if hear_all is not None:
                self._hand(sink, hear_all, events)
                continue
            for event in events:
                self._hand(sink, sink, event)

    def _hand(self, sink: Sink, hear: Callable[[Told], None], told: Told) -> None:
        try:
            hear(told)
        except BaseException as error:  # noqa: BLE001 - a sink may raise anything
            with suppress(BaseException):
                self._tell(sink, error)

    def _tell(self, sink: Sink, error: BaseException) -> None:
        """Log what a sink raised; the same of the same sink once."""
        failed = (id(sink), type(error))
        if failed not in self._failed:
            self._failed.add(failed)
            logging.getLogger("redrive").exception("a telemetry sink failed; the work goes on")
