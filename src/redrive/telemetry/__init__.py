"""The one door through which the engine tells what happened: events in, sinks out.

A sink is a callable. It never stands in the way of the work: what it raises is logged once and
forgotten. Sinks live in files of their own: logs.py now, metrics and traces later.
"""

from redrive.telemetry.events import Event, Sink, Telemetry

__all__ = ["Event", "Sink", "Telemetry"]
