"""Log lines have the exact fields of R34, and hold no secrets and no payload."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from typing import Any, get_args

import pytest

import redrive
from redrive.core.errors import ConfigurationError
from redrive.core.failure import Failure, Kind
from redrive.core.lifecycle import State
from redrive.core.message import Delivery, Lease, Message, Progress
from redrive.core.verdict import Reason
from redrive.telemetry.events import (
    Buried,
    CleanedUp,
    Completed,
    Concern,
    Event,
    HandlerOverran,
    LaneHeld,
    LaneResumed,
    LeaseLost,
    LettersArchived,
    LettersLeaving,
    LoopFailed,
    LoopLagged,
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
    Completed(DELIVERY, 0.01),
    RetryScheduled(DELIVERY, FAILURE, 5, 4234),
    Buried(DELIVERY, FAILURE, Reason.EXHAUSTED, 5),
    Released(DELIVERY, 0, None),
    LaneHeld(DELIVERY, "535 wrong password"),
    LaneResumed(DELIVERY),
    SettleRefused(DELIVERY),
    HandlerOverran(DELIVERY, 300.0),
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
    LettersLeaving("email:send", 2, 1_000, "archive"),
    LettersArchived("email:send", 2, "archive/one.jsonl.gz"),
    RetentionFailed("email:send", "there is no folder"),
    OperationHalted("op-1", "redrive", "halted", "too many failed again"),
    OperationEnded("op-1", "redrive", "finished", 5, 5),
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


def test_a_scheduled_retry_has_the_fields_of_document_000(stream: io.StringIO) -> None:
    configure_logs("info", "json", stream)
    log_event(RetryScheduled(DELIVERY, FAILURE, 5, 4234))
    (line,) = _lines(stream)
    expected = {
        "level": "warn",
        "message": "Job failed, scheduling retry",
        "jobId": DELIVERY.message.id,
        "companyId": "acme",
        "attempt": 3,
        "maxAttempts": 5,
        "errorCode": "421",
        "nextRetryDelay": 4234,
        "isRetryable": True,
    }
    assert expected.items() <= line.items()
    assert line["errorReason"] == "421 try later, password=*** for ***@example.org"
    assert line["timestamp"].endswith("Z")
    assert len(line["timestamp"]) == len("2025-10-19T10:30:00.000Z")


def test_a_dead_letter_adds_the_fields_of_document_004(stream: io.StringIO) -> None:
    configure_logs("info", "json", stream)
    log_event(Buried(DELIVERY, FAILURE, Reason.EXHAUSTED, 5))
    (line,) = _lines(stream)
    added = {"level": "error", "recordId": DELIVERY.message.id, "attempts": 3, "finalStatus": "dead"}
    assert added.items() <= line.items()
    assert {"component", "method", "error", "jobId", "companyId", "errorCode"} <= line.keys()
    assert line["isRetryable"] is False


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
