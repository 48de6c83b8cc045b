"""Spans of OpenTelemetry: one for each submit, attempt and re-drive, by the conventions for messaging.

A submit writes the W3C trace context into its messages' headers; every attempt and re-drive of a message is
a child of that submit and linked to it, so that one trace shows a message's life, whichever processes it went
through. Only the API is used: which spans are kept, and where they go, is the choice of the program's SDK.
Nothing here stands in the way of the work: what raises is logged once, and spans end in a thread beside it,
where an exporter may block. Known weakness: a span of an attempt says what the handler came to, not whether
the store took it; what a program's SDK does when a span starts is waited for.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import Token
from functools import partial
from typing import assert_never

from msgspec.structs import replace

from redrive.core.errors import MissingExtra
from redrive.core.failure import Failure
from redrive.core.message import TRACE_HEADERS, Delivery, Entry, Message
from redrive.core.ports import Receipt, Status
from redrive.core.redaction import redact
from redrive.core.verdict import Deferred, Done, Failed, Held, Outcome, Unreadable
from redrive.telemetry import aside
from redrive.telemetry.harmless import Harmless
from redrive.version import __version__

try:
    from opentelemetry import context as contexts
    from opentelemetry import trace
    from opentelemetry.context import Context
    from opentelemetry.trace import Link, Span, SpanKind, StatusCode, Tracer
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
    from opentelemetry.util.types import AttributeValue
except ImportError as error:
    raise MissingExtra("telemetry.tracing", "tracing") from error

_TOO_SLOW = (
    "spans are lost: the program's exporter takes them too slowly, or not at all; "
    "give its OpenTelemetry SDK a BatchSpanProcessor"
)
_W3C = TraceContextTextMapPropagator()
_NOWHERE = Context()
_NAMES = frozenset(name.encode() for name in TRACE_HEADERS)

Attributes = dict[str, AttributeValue]


class AttemptSpan:
    """The span of one attempt, current until it ends."""

    __slots__ = ("_harmless", "_span", "_token")

    def __init__(self, span: Span, harmless: Harmless) -> None:
        self._span = span
        self._harmless = harmless
        self._token = contexts.attach(trace.set_span_in_context(span))

    def end(self, outcome: Outcome | None) -> None:
        """The attempt came to this; None: to nothing that can be said."""
        with self._harmless:
            contexts.detach(self._token)
        with self._harmless:
            if outcome is not None:
                _describe_outcome(self._span, outcome)
        end(self._span, self._harmless)


class SubmitSpan:
    """The span of one submit; `entries` carry it."""

    def __init__(self, span: Span, entries: Sequence[Entry], harmless: Harmless) -> None:
        self._span = span
        self._harmless = harmless
        self.entries = entries

    def answer(self, receipts: Sequence[Receipt]) -> None:
        """What the store answered."""
        with self._harmless:
            if len(receipts) == 1:
                self._span.set_attribute("messaging.message.id", receipts[0].id)
            duplicates = sum(receipt.status is Status.DUPLICATE for receipt in receipts)
            if duplicates:
                self._span.set_attribute("redrive.duplicates", duplicates)

    def fail(self, error: BaseException) -> None:
        """The submit raised."""
        with self._harmless:
            self._span.set_status(StatusCode.ERROR)
            self._span.set_attribute("error.type", type(error).__name__)

    def end(self) -> None:
        end(self._span, self._harmless)


class Traces:
    """Makes spans with the program's tracer."""

    def __init__(self) -> None:
        self._harmless = Harmless()
        self._tracer: Tracer = trace.NoOpTracer()
        with self._harmless:
            self._tracer = trace.get_tracer("redrive", __version__)

    def begin(self, delivery: Delivery) -> AttemptSpan | None:
        """The span of an attempt that begins, current in this context; None when it cannot be made."""
        with self._harmless:
            message, progress = delivery.message, delivery.progress
            attributes = _of_message(message, "process", "process") | {
                "redrive.attempt": progress.attempts,
                "redrive.generation": progress.generation,
            }
            span = self._start(message.headers, SpanKind.CONSUMER, attributes)
            return AttemptSpan(span, self._harmless)
        return None

    @contextmanager
    def submitting(self, entries: Sequence[Entry]) -> Iterator[SubmitSpan]:
        """The span of a submit, which is a child of the caller's; its entries carry it in their headers."""
        submit = self._submit(entries)
        try:
            yield submit
        except BaseException as error:
            submit.fail(error)
            raise
        finally:
            submit.end()

    @contextmanager
    def receiving(self, headers: Iterable[tuple[bytes, bytes]]) -> Iterator[None]:
        """While an HTTP request is answered: what it submits is in its caller's trace.

        Where the program instruments its server itself, that span stays.
        """
        token = self._enter(headers)
        try:
            yield
        finally:
            with self._harmless:
                if token is not None:
                    contexts.detach(token)

    def redriven(self, messages: Sequence[Message], operation: str, began_ns: int) -> None:
        """A span for each message that an operation re-drove."""
        for message in messages:
            with self._harmless:
                attributes = _of_message(message, "redrive", "send") | {"redrive.operation": operation}
                span = self._start(message.headers, SpanKind.PRODUCER, attributes, began_ns)
                end(span, self._harmless)

    def flush(self) -> None:
        """Wait a little for spans that have not ended yet: the app closes."""
        aside.flush()

    def _enter(self, headers: Iterable[tuple[bytes, bytes]]) -> Token[Context] | None:
        with self._harmless:
            named = {
                name.decode("latin-1"): value.decode("latin-1") for name, value in headers if name in _NAMES
            }
            if named and not trace.get_current_span().get_span_context().is_valid:
                return contexts.attach(_W3C.extract(named, contexts.get_current()))
        return None

    def _submit(self, entries: Sequence[Entry]) -> SubmitSpan:
        submit = SubmitSpan(trace.INVALID_SPAN, entries, self._harmless)
        with self._harmless:
            first = entries[0].message
            attributes = _common(first.queue, "submit", "send") | {"redrive.tenant": first.tenant}
            if len(entries) > 1:
                attributes["messaging.batch.message_count"] = len(entries)
            caller = _W3C.extract(first.headers, contexts.get_current())
            span = self._tracer.start_span(f"submit {first.queue}", caller, SpanKind.PRODUCER, attributes)
            submit = SubmitSpan(span, entries, self._harmless)
            submit.entries = _carrying(span, entries)
        return submit

    def _start(
        self,
        headers: Mapping[str, str],
        kind: SpanKind,
        attributes: Attributes,
        began_ns: int | None = None,
    ) -> Span:
        """A span below what the headers say, and linked to it; without that, the first of a trace."""
        name = f"{attributes['messaging.operation.name']!s} {attributes['messaging.destination.name']!s}"
        parent = _W3C.extract(headers, _NOWHERE) if headers else _NOWHERE
        made_in = trace.get_current_span(parent).get_span_context()
        links = [Link(made_in)] if made_in.is_valid else ()
        return self._tracer.start_span(name, parent, kind, attributes, links, start_time=began_ns)


def end(span: Span, harmless: Harmless) -> None:
    """End a span that is recorded as of now, beside the work."""
    with harmless:
        if span.is_recording() and not aside.run(partial(_end, span, time.time_ns(), harmless)):
            harmless.tell(_TOO_SLOW)


def _end(span: Span, ended_ns: int, harmless: Harmless) -> None:
    with harmless:
        span.end(ended_ns)


def _carrying(span: Span, entries: Sequence[Entry]) -> Sequence[Entry]:
    """The entries, with the span in the headers of each; a span that nobody records is not carried."""
    carrier: dict[str, str] = {}
    _W3C.inject(carrier, trace.set_span_in_context(span, _NOWHERE))
    if not carrier:
        return entries
    return [
        replace(entry, message=replace(entry.message, headers={**entry.message.headers, **carrier}))
        for entry in entries
    ]


def _of_message(message: Message, name: str, kind: str) -> Attributes:
    return _common(message.queue, name, kind) | {
        "messaging.message.id": message.id,
        "messaging.message.body.size": len(message.body),
        "redrive.tenant": message.tenant,
    }


def _common(queue: str, name: str, kind: str) -> Attributes:
    return {
        "messaging.system": "redrive",
        "messaging.destination.name": queue,
        "messaging.operation.name": name,
        "messaging.operation.type": kind,
    }


def _describe_outcome(span: Span, outcome: Outcome) -> None:
    match outcome:
        case Done():
            span.set_attribute("redrive.outcome", "done")
        case Deferred():
            span.set_attribute("redrive.outcome", "later")
        case Held(failure=failure):
            _describe_failure(span, "held", failure)
        case Failed(failure=failure):
            _describe_failure(span, "failed", failure)
        case Unreadable(failure=failure):
            _describe_failure(span, "unreadable", failure)
        case _:
            assert_never(outcome)


def _describe_failure(span: Span, outcome: str, failure: Failure) -> None:
    span.set_status(StatusCode.ERROR, redact(failure.reason))
    span.set_attributes(
        {
            "redrive.outcome": outcome,
            "error.type": failure.code or failure.kind.value,
            "redrive.failure.kind": failure.kind.value,
            "redrive.failure.fingerprint": failure.fingerprint,
        }
    )
