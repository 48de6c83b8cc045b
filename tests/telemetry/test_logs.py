"""Log lines have the exact fields that dashboards look for, and hold no secrets and no payload."""

from __future__ import annotations

import io
import json
import logging
import re
from collections.abc import Iterator
from typing import Any, get_args

import pytest
from msgspec.structs import replace

import redrive
from redrive.core.errors import ConfigurationError
from redrive.core.failure import Failure, Kind
from redrive.core.lifecycle import State
from redrive.core.message import Delivery, Lease, Message, Progress
from redrive.core.verdict import Reason
from redrive.telemetry.events import (
    AlertCleared,
    AlertFired,
    BatchAccepted,
    BatchClaimed,
    BatchSettled,
    Buried,
    ChannelBack,
    ChannelFailed,
    CleanedUp,
    Completed,
    Concern,
    Event,
    HandlerOverran,
    HandlerRaised,
    HookDropped,
    HookFailed,
    LaneHeld,
    LaneResumed,
    LeaseLost,
    LeasesExtended,
    LettersArchived,
    LettersLeaving,
    LoopFailed,
    LoopLagged,
    NoticeDropped,
    OperationEnded,
    OperationHalted,
    RelayBack,
    RelayLost,
    Released,
    RetentionFailed,
    RetryScheduled,
    SettleRefused,
    StoreAccepting,
    StoreBack,
    StoreRefusing,
    StoreTrouble,
    WorkerStarted,
    WorkerStopped,
    WorkerStopping,
)
from redrive.telemetry.log_format import configure_logs
from redrive.telemetry.logs import log_event

DELIVERY = Delivery(
    Message("019a8b7c-1234-7abc-8def-0123456789ab", "email:send", "acme", b'{"card": 4111}', 0, 60.0),
    Progress(State.CLAIMED, 0, 60_000, attempts=3),
    Lease("email:send", "token", 30_000),
)
FAILURE = Failure(1, 3, Kind.TEMPORARY, "421 try later, password=hunter2 for bob@example.org", code="421")

EVENTS: tuple[Event, ...] = (
    BatchAccepted("email:send", 3),
    BatchClaimed("email:send", (DELIVERY,), 0),
    BatchSettled(1, 0.002),
    Completed(DELIVERY, 0.01),
    RetryScheduled(DELIVERY, FAILURE, 5, 4234),
    Buried(DELIVERY, FAILURE, Reason.EXHAUSTED, 5),
    Released(DELIVERY, 0, None),
    LaneHeld(DELIVERY, "535 wrong password"),
    LaneResumed(DELIVERY),
    SettleRefused(DELIVERY),
    HandlerOverran(DELIVERY, 300.0),
    LeasesExtended(2),
    LeaseLost("email:send", "token"),
    LoopLagged(1.5),
    StoreTrouble("claim", "refused", 1),
    StoreBack("claim", 3),
    LoopFailed("claim", ValueError("a bug")),
    WorkerStarted("host-1", ("email:send",), "sqlite:///redrive.db", "A"),
    WorkerStopping("host-1", 2, 30.0),
    WorkerStopped("host-1", 0),
    CleanedUp(7),
    RelayLost("smtp://relay", "connection refused", 0, 0.0),
    RelayBack("smtp://relay", 40, 61.5),
    StoreRefusing("the disk is nearly full"),
    StoreAccepting(),
    HookFailed("tell_chat", "dead", "ValueError: a bug"),
    HookDropped("tell_chat", "dead", 3),
    HandlerRaised(DELIVERY, FAILURE, ValueError("a bug")),
    LettersLeaving("email:send", 2, 1_000, "archive"),
    LettersArchived("email:send", 2, "archive/one.jsonl.gz"),
    RetentionFailed("email:send", "there is no folder"),
    OperationHalted("op-1", "redrive", "halted", "too many failed again"),
    OperationEnded("op-1", "redrive", "finished", 5, 5),
    AlertFired(
        rule="tenant_dlq",
        severity="critical",
        subject="acme",
        text="51 dead letters, password=hunter2",
        value=51.0,
    ),
    AlertCleared("tenant_dlq", "acme", "51 dead letters"),
    ChannelFailed("ops", "hooks.example answered 500", 1),
    ChannelBack("ops", 3),
    NoticeDropped("ops", "tenant_dlq", "51 dead letters"),
)


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    logger = logging.getLogger("redrive")
    before = (logger.handlers[:], logger.level, logger.propagate)
    text = io.StringIO()
    yield text
    logger.handlers[:], logger.propagate = before[0], before[2]
    logger.setLevel(before[1])


def _lines(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_a_scheduled_retry_has_each_field_of_the_retry_document_in_its_type(stream: io.StringIO) -> None:
    configure_logs("info", "json", stream)
    log_event(RetryScheduled(DELIVERY, FAILURE, 5, 4234))
    (line,) = _lines(stream)
    documented = {
        "level": "warn",
        "message": "Job failed, scheduling retry",
        "jobId": "019a8b7c-1234-7abc-8def-0123456789ab",
        "companyId": "acme",
        "attempt": 3,
        "maxAttempts": 5,
        "errorCode": "421",
        "errorReason": "421 try later, password=*** for ***@example.org",
        "nextRetryDelay": 4234,
        "isRetryable": True,
    }
    assert {name: line[name] for name in documented} == documented
    assert {name: type(line[name]) for name in documented} == {k: type(v) for k, v in documented.items()}
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", line["timestamp"])
    assert line.keys() - documented.keys() == {"timestamp", "queue", "kind", "fingerprint"}


def test_a_dead_letter_has_each_field_of_the_outbox_document_besides(stream: io.StringIO) -> None:
    configure_logs("info", "json", stream)
    log_event(RetryScheduled(DELIVERY, FAILURE, 5, 4234))
    log_event(Buried(DELIVERY, FAILURE, Reason.EXHAUSTED, 5))
    retry, line = _lines(stream)
    documented = {
        "level": "error",
        "component": "Worker",
        "method": "settle",
        "recordId": "019a8b7c-1234-7abc-8def-0123456789ab",
        "attempts": 3,
        "error": "421 try later, password=*** for ***@example.org",
        "finalStatus": "dead",
    }
    assert {name: line[name] for name in documented} == documented
    assert line["message"] == "Job moved to DLQ"
    assert line["isRetryable"] is False
    assert retry.keys() - line.keys() == {"nextRetryDelay"}
    assert line.keys() - retry.keys() == {*documented, "reason"} - {"level"}


@pytest.mark.parametrize(
    "headers",
    [
        {"correlation-id": "c-1", "routing-key": "validator.requested", "message-type": "Validate"},
        {"correlationId": "c-1", "routingKey": "validator.requested", "messageType": "Validate"},
        {"X-Correlation-Id": "c-1", "x-routing-key": "validator.requested", "x-message-type": "Validate"},
    ],
)
@pytest.mark.parametrize("event", ["retry", "dead", "done"])
def test_a_brokers_message_has_each_field_of_the_broker_document(
    stream: io.StringIO, headers: dict[str, str], event: str
) -> None:
    configure_logs("info", "json", stream)
    delivery = replace(DELIVERY, message=replace(DELIVERY.message, headers={**headers, "cookie": "s3cret"}))
    made: dict[str, Event] = {
        "retry": RetryScheduled(delivery, FAILURE, 5, 4234),
        "dead": Buried(delivery, FAILURE, Reason.EXHAUSTED, 5),
        "done": Completed(delivery, 0.01),
    }
    log_event(made[event])
    (line,) = _lines(stream)
    assert line["correlationId"] == "c-1"
    assert line["queue"] == "email:send"
    assert line["routingKey"] == "validator.requested"
    assert line["messageType"] == "Validate"
    assert line["attempt"] == 3
    assert "s3cret" not in stream.getvalue()


def test_a_line_of_a_traced_message_names_its_trace(stream: io.StringIO) -> None:
    configure_logs("info", "json", stream)
    parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    message = replace(DELIVERY.message, headers={"traceparent": parent})
    log_event(Completed(replace(DELIVERY, message=message), 0.01))
    assert _lines(stream)[0]["traceId"] == "0af7651916cd43dd8448eb211c80319c"


def test_no_field_is_there_twice_but_those_that_both_documents_name(stream: io.StringIO) -> None:
    configure_logs("debug", "json", stream)
    for event in EVENTS:
        log_event(event)
    for line in _lines(stream):
        values = [value for name, value in line.items() if name not in ("recordId", "attempts", "error")]
        texts = [value for value in values if isinstance(value, str)]
        assert len(texts) == len(set(texts)), line


def test_the_text_of_a_record_says_what_it_is_about(caplog: pytest.LogCaptureFixture) -> None:
    log_event(RetryScheduled(DELIVERY, FAILURE, 5, 4234))
    log_event(Buried(DELIVERY, FAILURE, Reason.EXHAUSTED, 5))
    log_event(StoreTrouble("claim", "connection refused", 1))
    about = f"queue=email:send id={DELIVERY.message.id} tenant=acme attempt=3"
    why = 'code=421 reason="421 try later, password=*** for ***@example.org"'
    assert caplog.messages == [
        f"Job failed, scheduling retry: {about} {why} delayMs=4234",
        f"Job moved to DLQ: {about} dead=exhausted {why}",
        'Store does not answer, trying again: doing=claim error="connection refused" failures=1',
    ]


def test_one_line_gives_a_program_of_ones_own_the_json(stream: io.StringIO) -> None:
    redrive.logs(stream=stream)
    log_event(RetryScheduled(DELIVERY, FAILURE, 5, 4234))
    (line,) = _lines(stream)
    assert (line["message"], line["companyId"]) == ("Job failed, scheduling retry", "acme")


@pytest.mark.parametrize("wrong", [{"level": "loud"}, {"style": "xml"}])
def test_an_unknown_level_or_format_is_refused_with_those_there_are(wrong: dict[str, str]) -> None:
    with pytest.raises(ConfigurationError, match="use one of"):
        redrive.logs(**wrong)


def test_no_line_holds_the_payload_or_a_password(stream: io.StringIO) -> None:
    configure_logs("debug", "json", stream)
    log_event(Completed(DELIVERY, 0.01))
    log_event(Buried(DELIVERY, FAILURE, Reason.EXHAUSTED, 5))
    log_event(StoreTrouble("claim", "redis://ana:s3cret@127.0.0.1/0 refused", 1))
    log_event(LoopFailed("claim", ValueError("a bug")))
    text = stream.getvalue()
    assert "4111" not in text
    assert "hunter2" not in text
    assert "s3cret" not in text


def test_on_a_terminal_lines_are_readable_and_free_of_foreign_control_sequences(stream: io.StringIO) -> None:
    configure_logs("info", "text", stream)
    hostile = Failure(1, 3, Kind.TEMPORARY, "bad \x1b[31mred\x1b[0m \x07 text")
    log_event(RetryScheduled(DELIVERY, hostile, None, 1000))
    text = stream.getvalue()
    assert "warn" in text
    assert "Job failed, scheduling retry" in text
    assert "\x1b" not in text
    assert "\x07" not in text


@pytest.mark.parametrize("style", ["text", "json"])
def test_a_traceback_holds_no_secret_and_no_control_sequence(stream: io.StringIO, style: str) -> None:
    configure_logs("info", style, stream)
    try:
        raise LookupError("\x1bc\x9b2J token=hun\x07ter2hunter2")
    except LookupError as cause:
        error = ValueError("no place for bob@example.org")
        error.__cause__ = cause
        error.add_note("password=hunter2 \x1b]0;title\x07")
    log_event(LoopFailed("alerts", error))
    written = stream.getvalue()
    shown = json.loads(written)["traceback"] if style == "json" else written
    assert "LookupError: c2J token=***" in shown
    assert "ValueError: no place for ***@example.org" in shown
    assert "\n  File " in shown
    assert not re.search(r"hunter|bob|[\x00-\x08\x0b-\x1f\x7f-\x9f]", shown + written)


def test_a_json_line_holds_no_control_character_that_a_terminal_obeys(stream: io.StringIO) -> None:
    configure_logs("info", "json", stream)
    logging.getLogger("redrive").warning("a queue \x9b2J", extra={"fields": {"queue": "q\x9b31m\x7f"}})
    written = stream.getvalue()
    assert json.loads(written)["queue"] == "q31m"
    assert not re.search(r"[\x7f-\x9f]", written)


def test_every_event_is_logged_as_text_and_as_json(stream: io.StringIO) -> None:
    kinds: tuple[type[Event], ...] = get_args(Event)
    examples = {type(one): one for one in EVENTS}
    assert set(examples) == set(kinds)
    for style in ("json", "text"):
        configure_logs("debug", style, stream)
        for event in EVENTS:
            log_event(event)
    assert len(stream.getvalue().splitlines()) >= 2 * len(kinds)


@pytest.mark.parametrize("event", [one for one in EVENTS if isinstance(one, Concern)])
def test_what_an_operator_should_hear_of_is_marked_in_its_line(stream: io.StringIO, event: Event) -> None:
    configure_logs("debug", "json", stream)
    log_event(event)
    log_event(Completed(DELIVERY, 0.01))
    concern, other = _lines(stream)
    assert concern["alert"] is True
    assert "alert" not in other
