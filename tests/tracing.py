"""Spans kept in memory, for tests of tracing: OpenTelemetry takes one provider a process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from redrive.telemetry import aside


class Troubled(SpanProcessor):
    """A processor of spans that does what a test says when one starts or ends."""

    def __init__(self) -> None:
        self.at_start: Callable[[], object] = lambda: None
        self.at_end: Callable[[], object] = lambda: None

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        self.at_start()

    def on_end(self, span: ReadableSpan) -> None:
        self.at_end()


_troubled = Troubled()


@cache
def exporter() -> InMemorySpanExporter:
    """What keeps the spans of this process from now on."""
    made, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(_troubled)
    provider.add_span_processor(SimpleSpanProcessor(made))
    trace.set_tracer_provider(provider)
    return made


@contextmanager
def trouble(
    *, at_start: Callable[[], object] = lambda: None, at_end: Callable[[], object] = lambda: None
) -> Iterator[None]:
    """What every span of this process meets meanwhile."""
    exporter()
    _troubled.at_start, _troubled.at_end = at_start, at_end
    try:
        yield
    finally:
        aside.flush()
        _troubled.at_start = _troubled.at_end = lambda: None


def named(name: str) -> list[ReadableSpan]:
    """The spans of a name that have ended, in that order."""
    aside.flush()
    return [span for span in exporter().get_finished_spans() if span.name == name]
