"""The one door through which the engine tells what happened: events in, sinks out.

A sink is a callable. It never stands in the way of the work: what it raises is logged once and
forgotten. Sinks live in files of their own: log_sink.py writes events down (logs.py has the words, repeats.py
says how often), totals.py adds them up, hooks.py hands them to a team's own code, sentry.py reports what
handlers raise. traces.py makes spans, which begin before there is an event.
"""

from redrive.telemetry.door import Telemetry
from redrive.telemetry.events import Event, Sink

__all__ = ["Event", "Sink", "Telemetry"]
