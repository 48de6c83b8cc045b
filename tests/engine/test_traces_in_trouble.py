"""Tracing that raises or blocks: messages are accepted, worked on and re-driven all the same.

The log says that tracing failed, once for the app and once for its operations.
"""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Iterator

import httpx
import pytest
from opentelemetry import context as contexts
from opentelemetry import trace
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags

from redrive import Conflict, Permanent, Redrive
from redrive.core.grants import QueuePatterns
from redrive.engine.ids import new_id
from redrive.office.access import Access, Limits, Role
from redrive.office.audit import Actor
from redrive.telemetry import aside
from redrive.telemetry.events import Buried, Completed
from redrive.web.server import serve
from tests.engine.conftest import MakeApp, working
from tests.tracing import exporter, named, trouble

FAILED = "tracing failed; the work goes on"
SEEN = SpanContext(0xAF7651916CD43DD8448EB211C80319C, 0xB7AD6B7169203331, False, TraceFlags(1))


@pytest.fixture(autouse=True)
def spans() -> Iterator[None]:
    exporter().clear()
    yield
    exporter().clear()


@pytest.fixture
async def traced(make_app: MakeApp) -> AsyncIterator[Redrive]:
    async with make_app(**{"telemetry.tracing": True}) as opened:
        yield opened


def raising(*_: object, **__: object) -> None:
    raise RuntimeError("the exporter's queue is broken")


async def live(app: Redrive) -> None:
    """A message's whole life: a submit, another that is refused, a death, a re-drive and a good end."""
    fixed, message_id = False, new_id()

    @app.handler("orders")
    async def handle(payload: dict[str, int]) -> None:
        if not fixed:
            raise Permanent("no such account")

    async with working(app) as events:
        receipt = await app.submit("orders", {"n": 1}, message_id=message_id)
        await events.wait_for(Buried)
        with pytest.raises(Conflict):
            await app.submit("orders", {"n": 2}, message_id=message_id)
        fixed = True
        await app.dead_letters.redrive(ids=[receipt.id])
        await events.wait_for(Completed)


@pytest.mark.parametrize("when", ["at_start", "at_end"])
async def test_a_processor_of_spans_that_raises_fails_nothing(
    traced: Redrive, when: str, caplog: pytest.LogCaptureFixture
) -> None:
    with trouble(**{when: raising}):
        await live(traced)
    assert caplog.text.count(FAILED) == 2
    await traced.submit("other", {})
    assert len(named("submit other")) == 1


@pytest.mark.parametrize(
    "method", ["set_attribute", "set_attributes", "set_status", "get_span_context", "is_recording", "end"]
)
async def test_a_span_that_raises_wherever_it_is_asked_fails_nothing(
    traced: Redrive, method: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken(NonRecordingSpan):
        """A span of a tracer that is not the SDK's."""

        def is_recording(self) -> bool:
            return True

    setattr(Broken, method, raising)
    for traces in (traced.telemetry.traces, traced.office.traces):
        assert traces is not None
        monkeypatch.setattr(traces._tracer, "start_span", lambda *_, **__: Broken(SEEN))
    await live(traced)
    aside.flush()
    assert 1 <= caplog.text.count(FAILED) <= 2


async def test_a_request_is_answered_although_its_trace_cannot_be_entered_or_left(
    traced: Redrive, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    access = Access(traced.store, Actor("test", "test"))
    _, key = await access.create(Role.SUBMIT, "acme", limits=Limits(queues=QueuePatterns(("*",))))
    headers = {
        "authorization": f"Bearer {key}",
        "traceparent": f"00-{SEEN.trace_id:032x}-{SEEN.span_id:016x}-01",
    }
    async with serve(traced, "127.0.0.1:0") as server, httpx.AsyncClient(headers=headers) as client:
        for step in ("attach", "detach"):
            with monkeypatch.context() as patched:
                patched.setattr(contexts, step, raising)
                answer = await client.post(f"{server.url}/v1/queues/orders/messages", json={"payload": {}})
            assert answer.status_code == 202
    assert caplog.text.count(FAILED) == 1


async def test_an_exporter_that_blocks_holds_up_no_work_and_no_close(
    make_app: MakeApp, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(aside, "_FLUSH_S", 0.01)
    monkeypatch.setattr(aside, "HELD", 3)
    answers = threading.Event()
    with trouble(at_end=answers.wait):
        async with make_app(**{"telemetry.tracing": True}) as app:
            app.handler("orders")(lambda payload: None)
            async with working(app) as events:
                for _ in range(6):
                    await app.submit("orders", {})
                await events.wait_for(Completed, 6)
        assert caplog.text.count("spans are lost") == 1
        assert "BatchSpanProcessor" in caplog.text
        answers.set()
        monkeypatch.undo()
    assert 1 <= len(named("submit orders")) <= 4


async def test_a_program_whose_tracer_cannot_be_made_works_without(
    make_app: MakeApp, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(trace, "get_tracer", raising)
    async with make_app(**{"telemetry.tracing": True}) as app:
        await app.submit("orders", {})
    assert FAILED in caplog.text


async def test_what_was_submitted_before_an_app_closes_is_exported_when_it_is_closed(
    make_app: MakeApp,
) -> None:
    async with make_app(**{"telemetry.tracing": True}) as app:
        await app.submit("orders", {})
    assert [span.name for span in exporter().get_finished_spans()] == ["submit orders"]


def test_a_forked_child_begins_with_a_thread_of_its_own() -> None:
    held = aside.Aside()
    done, again = threading.Event(), threading.Event()
    assert held.run(done.set)
    assert done.wait(30)
    held.forked()
    assert held.run(again.set)
    assert again.wait(30)
