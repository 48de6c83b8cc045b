"""One trace shows a message's life: submit, every attempt and re-drive, over all its processes."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import SpanKind, StatusCode

from redrive import Conflict, Delivery, Permanent, Redrive, Submission, Temporary
from redrive.core.errors import MissingExtra
from redrive.core.grants import QueuePatterns
from redrive.engine.ids import new_id
from redrive.office.access import Access, Limits, Role
from redrive.office.audit import Actor
from redrive.telemetry.events import Buried, Completed
from redrive.testing import trial
from redrive.web.server import serve
from tests.engine.conftest import MakeApp, working
from tests.tracing import exporter, named


@pytest.fixture(autouse=True)
def spans() -> Iterator[None]:
    exporter().clear()
    yield
    exporter().clear()


@pytest.fixture(params=["sqlite", "redis"])
async def traced(request: pytest.FixtureRequest, make_app: MakeApp) -> AsyncIterator[Redrive]:
    """A traced app on every store in turn."""
    flags: dict[str, object] = {"telemetry.tracing": True, "retry.base_s": 0.01}
    if request.param == "redis":
        flags["store"] = f"{request.getfixturevalue('redis_url')}?prefix=traces:{uuid.uuid4().hex[:12]}"
    async with make_app(**flags) as opened:
        yield opened


def _trace_id(span: ReadableSpan) -> int:
    return span.context.trace_id


def _parent(span: ReadableSpan) -> int:
    assert span.parent is not None
    return span.parent.span_id


async def test_submit_and_every_attempt_are_one_trace(traced: Redrive) -> None:
    @traced.handler("orders")
    async def handle(payload: dict[str, int], delivery: Delivery) -> None:
        if delivery.progress.attempts == 1:
            raise Temporary("card network down, token=s3cret", code="504")

    async with working(traced) as events:
        receipt = await traced.submit("orders", {"total": 5}, tenant="acme")
        await events.wait_for(Completed)
    (submit,), (first, second) = named("submit orders"), named("process orders")
    assert _trace_id(submit) == _trace_id(first) == _trace_id(second)
    assert _parent(first) == _parent(second) == submit.context.span_id
    assert [link.context.span_id for link in second.links] == [submit.context.span_id]
    assert (submit.kind, first.kind) == (SpanKind.PRODUCER, SpanKind.CONSUMER)
    assert submit.attributes == {
        "messaging.system": "redrive",
        "messaging.destination.name": "orders",
        "messaging.operation.name": "submit",
        "messaging.operation.type": "send",
        "messaging.message.id": receipt.id,
        "redrive.tenant": "acme",
    }
    assert first.attributes is not None
    fingerprint = first.attributes["redrive.failure.fingerprint"]
    assert first.attributes == {
        "messaging.system": "redrive",
        "messaging.destination.name": "orders",
        "messaging.operation.name": "process",
        "messaging.operation.type": "process",
        "messaging.message.id": receipt.id,
        "messaging.message.body.size": len('{"total":5}'),
        "redrive.tenant": "acme",
        "redrive.attempt": 1,
        "redrive.generation": 0,
        "redrive.outcome": "failed",
        "redrive.failure.kind": "temporary",
        "redrive.failure.fingerprint": fingerprint,
        "error.type": "504",
    }
    assert first.status.status_code is StatusCode.ERROR
    assert first.status.description == "card network down, token=***"
    assert second.status.status_code is StatusCode.UNSET
    assert second.attributes is not None
    assert (second.attributes["redrive.attempt"], second.attributes["redrive.outcome"]) == (2, "done")


async def test_a_submit_belongs_to_the_callers_trace_and_a_batch_is_one_span(traced: Redrive) -> None:
    with trace.get_tracer("shop").start_as_current_span("checkout") as caller:
        await traced.submit_many("orders", [Submission({"n": n}) for n in range(3)])
    (submit,) = named("submit orders")
    assert _parent(submit) == caller.get_span_context().span_id
    assert submit.attributes is not None
    assert submit.attributes["messaging.batch.message_count"] == 3


async def test_a_submit_without_await_belongs_to_the_callers_trace_too(make_app: MakeApp) -> None:
    app = make_app(**{"telemetry.tracing": True})

    def submit() -> int:
        with trace.get_tracer("shop").start_as_current_span("view") as caller:
            app.sync.submit("orders", {})
        app.sync.close()
        return caller.get_span_context().span_id

    caller_id = await asyncio.to_thread(submit)
    assert _parent(named("submit orders")[0]) == caller_id


async def test_a_handler_sees_its_attempts_span_in_a_task_a_shared_task_and_a_thread(traced: Redrive) -> None:
    seen: dict[str, int] = {}

    def here(name: str) -> None:
        seen[name] = trace.get_current_span().get_span_context().span_id

    @traced.handler("waits")
    async def waits(payload: dict[str, str], delivery: Delivery) -> None:
        await asyncio.sleep(0)
        here(delivery.message.id)

    @traced.handler("goes")
    async def goes(payload: dict[str, str], delivery: Delivery) -> None:
        here(delivery.message.id)

    @traced.handler("threads")
    def threads(payload: dict[str, str], delivery: Delivery) -> None:
        here(delivery.message.id)

    async with working(traced) as events:
        for queue in ("waits", "goes", "threads"):
            await traced.submit_many(queue, [Submission({}) for _ in range(5)])
        await events.wait_for(Completed, 15)
    processed = [span for queue in ("waits", "goes", "threads") for span in named(f"process {queue}")]
    assert len(processed) == 15
    for span in processed:
        assert span.attributes is not None
        assert seen[str(span.attributes["messaging.message.id"])] == span.context.span_id


async def test_an_attempt_of_an_untraced_message_begins_a_trace_of_its_own(make_app: MakeApp) -> None:
    async with make_app() as plain:
        await plain.submit("orders", {})
    with trace.get_tracer("shop").start_as_current_span("whoever starts the worker"):
        async with make_app(**{"telemetry.tracing": True}) as app:
            app.handler("orders")(lambda payload: None)
            async with working(app) as events:
                await events.wait_for(Completed)
    (process,) = named("process orders")
    assert process.parent is None
    assert not process.links


async def test_a_redrive_is_a_span_in_the_trace_of_its_message(traced: Redrive) -> None:
    fixed = False

    @traced.handler("orders")
    async def handle(payload: dict[str, int]) -> None:
        if not fixed:
            raise Permanent("no such account")

    async with working(traced) as events:
        receipt = await traced.submit("orders", {"total": 5})
        await events.wait_for(Buried)
        fixed = True
        await traced.dead_letters.redrive(ids=[receipt.id])
        await events.wait_for(Completed)
    (submit,), (redrive,) = named("submit orders"), named("redrive orders")
    last = named("process orders")[-1]
    assert _trace_id(submit) == _trace_id(redrive) == _trace_id(last)
    assert redrive.attributes is not None
    assert last.attributes is not None
    assert redrive.attributes["messaging.message.id"] == receipt.id
    assert str(redrive.attributes["redrive.operation"])
    assert last.attributes["redrive.generation"] == 1


async def test_a_repeat_in_another_trace_is_a_repeat(traced: Redrive) -> None:
    message_id = new_id()
    for _ in range(2):
        with trace.get_tracer("shop").start_as_current_span("try"):
            by_id = await traced.submit("orders", {"n": 1}, message_id=message_id, headers={"to": "ann"})
            by_key = await traced.submit("orders", {"n": 2}, dedupe="order-7")
    assert by_id.id == message_id
    assert by_key.status == "duplicate"
    duplicate = named("submit orders")[-1].attributes
    assert duplicate is not None
    assert (duplicate["redrive.duplicates"], duplicate["messaging.message.id"]) == (1, by_key.id)


async def test_another_message_of_the_same_id_is_a_conflict_still(traced: Redrive) -> None:
    message_id = new_id()
    await traced.submit("orders", {"n": 1}, message_id=message_id)
    with pytest.raises(Conflict):
        await traced.submit("orders", {"n": 2}, message_id=message_id)
    refused = named("submit orders")[-1]
    assert refused.status.status_code is StatusCode.ERROR
    assert refused.attributes is not None
    assert refused.attributes["error.type"] == "Conflict"


async def test_the_attempts_of_a_trial_are_traced(make_app: MakeApp) -> None:
    app = make_app(**{"telemetry.tracing": True})
    app.handler("orders")(lambda payload: None)
    async with trial(app) as test:
        await app.submit("orders", {})
        await test.run_until_idle()
    assert len(named("process orders")) == 1


async def test_what_a_request_submits_is_in_the_trace_that_it_names(make_app: MakeApp) -> None:
    trace_id, span_id = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
    async with make_app(**{"telemetry.tracing": True}) as app:
        limits = Limits(queues=QueuePatterns(("*",)))
        access = Access(app.store, Actor("test", "test"))
        _, key = await access.create(Role.SUBMIT, "acme", limits=limits)
        headers = {"authorization": f"Bearer {key}", "traceparent": f"00-{trace_id}-{span_id}-01"}
        async with serve(app, "127.0.0.1:0") as server, httpx.AsyncClient(headers=headers) as client:
            answer = await client.post(f"{server.url}/v1/queues/orders/messages", json={"payload": {}})
    assert answer.status_code == 202
    (submit,) = named("submit orders")
    assert (f"{_trace_id(submit):032x}", f"{_parent(submit):016x}") == (trace_id, span_id)


async def test_a_tracer_that_fails_is_not_in_the_way(
    traced: Redrive, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise OSError("the exporter's disk is full")

    app = traced
    assert app.telemetry.traces is not None
    monkeypatch.setattr(app.telemetry.traces._tracer, "start_span", broken)
    app.handler("orders")(lambda payload: None)
    async with working(app) as events:
        for _ in range(3):
            await app.submit("orders", {})
        await events.wait_for(Completed, 3)
    assert caplog.text.count("tracing failed; the work goes on") == 1


def test_without_the_package_the_install_line_is_said(
    make_app: MakeApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "redrive.telemetry.traces", raising=False)
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    with pytest.raises(MissingExtra, match=r"pip install 'redrive\[tracing\]'"):
        make_app(**{"telemetry.tracing": True})


@pytest.mark.parametrize("kind", ["sqlite", "redis"])
def test_one_trace_leads_from_a_submit_to_the_second_attempt_over_three_processes(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    store = f"sqlite:///{tmp_path}/redrive.db"
    if kind == "redis":
        store = f"{request.getfixturevalue('redis_url')}?prefix=traces:{uuid.uuid4().hex[:12]}"
    written: list[dict[str, Any]] = []
    for number, what in enumerate(("submit", "work", "work")):
        file = tmp_path / f"{number}.jsonl"
        command = [sys.executable, "-m", "tests.engine.traced_process", what, store, str(file)]
        subprocess.run(command, check=True, timeout=100)
        written += [json.loads(line) | {"process": number} for line in file.read_text().splitlines()]
    assert len({span["context"]["trace_id"] for span in written}) == 1
    made = sorted((span["process"], span["name"]) for span in written)
    assert made == [
        (0, "checkout"),
        (0, "submit orders"),
        (1, "charge"),
        (1, "process orders"),
        (2, "charge"),
        (2, "process orders"),
    ]
    ids = {(span["process"], span["name"]): span["context"]["span_id"] for span in written}
    above = {(span["process"], span["name"]): span["parent_id"] for span in written}
    assert above[0, "submit orders"] == ids[0, "checkout"]
    assert above[1, "process orders"] == above[2, "process orders"] == ids[0, "submit orders"]
    assert above[2, "charge"] == ids[2, "process orders"]
    assert [span["attributes"]["redrive.attempt"] for span in written if "process " in span["name"]] == [1, 2]
    assert "s3cret" not in json.dumps(written)
