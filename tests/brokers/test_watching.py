"""What can be seen of a message on a broker: one trace from its sender on, and log lines that name it."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest

from redrive.core.message import Delivery
from redrive.telemetry.log_format import configure_logs
from tests.brokers.apps import RabbitBroker, body, working
from tests.tracing import exporter, named
from tests.waiting import wait_until

TRACE_ID, SPAN_ID = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


@pytest.fixture
def log() -> Iterator[io.StringIO]:
    logger = logging.getLogger("redrive")
    before = (logger.handlers[:], logger.level, logger.propagate)
    text = io.StringIO()
    configure_logs("info", "json", text)
    yield text
    logger.handlers[:], logger.propagate = before[0], before[2]
    logger.setLevel(before[1])


async def test_a_message_is_in_its_senders_trace_and_its_lines_name_it(
    broker: RabbitBroker, log: io.StringIO
) -> None:
    exporter().clear()
    app, tries = broker.make_app(telemetry__tracing=True), list[int]()

    @app.handler("q.one")
    async def handle(payload: dict[str, Any], delivery: Delivery) -> None:
        tries.append(delivery.progress.attempts)
        if len(tries) in (1, 3):
            raise ValueError("the validator is away")

    async with working(app):
        await app.submit("q.one", {"n": 1})
        await wait_until(lambda: len(tries) == 2, 20, "a message of ours had its second attempt")
        await broker.put(
            "q.one",
            body(n=2),
            correlation_id="c-7",
            message_type="validate",
            headers={"traceparent": f"00-{TRACE_ID}-{SPAN_ID}-01"},
        )
        await wait_until(lambda: len(named("process q.one")) == 4, 20, "theirs had its second attempt too")
    (submit,) = named("submit q.one")
    first, second, third, fourth = named("process q.one")
    assert first.context.trace_id == second.context.trace_id == submit.context.trace_id
    assert f"{third.context.trace_id:032x}" == f"{fourth.context.trace_id:032x}" == TRACE_ID
    assert third.parent is not None
    assert f"{third.parent.span_id:016x}" == SPAN_ID
    lines = [json.loads(line) for line in log.getvalue().splitlines()]
    retry = [line for line in lines if line["message"] == "Job failed, scheduling retry"][-1]
    told = {name: retry[name] for name in ("correlationId", "queue", "routingKey", "messageType", "attempt")}
    assert told == {
        "correlationId": "c-7",
        "queue": "q.one",
        "routingKey": "q.one",
        "messageType": "validate",
        "attempt": 1,
    }
    assert retry["traceId"] == TRACE_ID
