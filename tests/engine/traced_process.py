"""A process that traces: submits a message, or works until one has had an attempt; spans go to a file.

`python -m tests.engine.traced_process submit|work STORE FILE`
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path

from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult

from redrive import Delivery, Redrive, Temporary
from redrive.telemetry.events import Completed, Event, RetryScheduled
from redrive.wiring import load


class LineExporter(SpanExporter):
    """Appends each span to a file, as JSON on a line."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        with self._path.open("a") as file:
            file.writelines(f"{span.to_json(indent=None)}\n" for span in spans)
        return SpanExportResult.SUCCESS


async def main(what: str, store: str, path: str) -> None:
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(LineExporter(Path(path))))
    trace.set_tracer_provider(provider)
    flags = {"store": store, "profile": "development", "telemetry.tracing": True, "retry.base_s": 2.0}
    app = Redrive(settings=load(flags, environ={}, folder=Path(path).parent))

    @app.handler("orders")
    async def handle(payload: dict[str, int], delivery: Delivery) -> None:
        with trace.get_tracer("shop").start_as_current_span("charge"):
            await asyncio.sleep(0)
        if delivery.progress.attempts == 1:
            raise Temporary("card network down, token=s3cret", code="504")

    async with app:
        if what == "submit":
            with trace.get_tracer("shop").start_as_current_span("checkout"):
                await handle.submit({"total": 5}, tenant="acme")
        else:
            await work(app)


async def work(app: Redrive) -> None:
    """Work until one attempt has ended."""
    ended = asyncio.Event()

    def see(event: Event) -> None:
        if isinstance(event, Completed | RetryScheduled):
            ended.set()

    app.telemetry.add(see)
    worker = asyncio.create_task(app.run(signals=False))
    async with asyncio.timeout(60):
        await ended.wait()
    worker.cancel()
    await asyncio.gather(worker, return_exceptions=True)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
