"""Events as log lines, with the exact names that dashboards and alerts look for.

Uses the `redrive` logger of the standard library: a library user's own logging configuration applies. The
text of a record says what it is about, since most formats show that alone; our own formats take the record's
`summary` and `fields` instead.
Payloads never appear; reasons are redacted.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, assert_never

from redrive.core.failure import Failure, Kind
from redrive.core.message import Delivery
from redrive.core.redaction import redact
from redrive.telemetry import events
from redrive.telemetry.events import Event
from redrive.telemetry.log_format import pairs, timestamp

logger = logging.getLogger("redrive")


def log_event(event: Event) -> None:
    """The sink."""
    level = _level(event)
    if not logger.isEnabledFor(level):
        return
    text, fields = _describe(event)
    if isinstance(event, events.Concern):
        fields["alert"] = True
    error = event.error if isinstance(event, events.LoopFailed) else None
    whole = f"{text}: {words}" if (words := pairs(_told(event, fields))) else text
    logger.log(level, "%s", whole, extra={"summary": text, "fields": fields}, exc_info=error)


def _told(event: Event, fields: Mapping[str, Any]) -> dict[str, Any]:
    """What the text of a record says: of a message the most important, of all else everything."""
    if not isinstance(event, events.MessageEvent):
        return {name: value for name, value in fields.items() if name != "alert"}
    return {word: fields[name] for name, word in _WORDS.items() if fields.get(name) is not None}


_WORDS = {
    "queue": "queue",
    "jobId": "id",
    "companyId": "tenant",
    "attempt": "attempt",
    "reason": "dead",
    "errorCode": "code",
    "errorReason": "reason",
    "nextRetryDelay": "delayMs",
}


def _level(event: Event) -> int:
    """What waits for the same outage, or for a draining worker, is not told line by line."""
    if isinstance(event, events.Released) and event.failure is None:
        return logging.DEBUG
    return _LEVELS[type(event)]


_LEVELS: Mapping[type, int] = {
    events.Completed: logging.INFO,
    events.RetryScheduled: logging.WARNING,
    events.Buried: logging.ERROR,
    events.Released: logging.WARNING,
    events.LaneHeld: logging.ERROR,
    events.LaneResumed: logging.INFO,
    events.SettleRefused: logging.WARNING,
    events.LeaseLost: logging.WARNING,
    events.HandlerOverran: logging.WARNING,
    events.LoopLagged: logging.WARNING,
    events.StoreTrouble: logging.ERROR,
    events.StoreBack: logging.INFO,
    events.LoopFailed: logging.ERROR,
    events.WorkerStarted: logging.INFO,
    events.WorkerStopping: logging.INFO,
    events.WorkerStopped: logging.INFO,
    events.CleanedUp: logging.DEBUG,
    events.RelayLost: logging.ERROR,
    events.RelayBack: logging.INFO,
    events.StoreRefusing: logging.ERROR,
    events.StoreAccepting: logging.INFO,
    events.LettersLeaving: logging.WARNING,
    events.LettersArchived: logging.WARNING,
    events.RetentionFailed: logging.ERROR,
    events.OperationHalted: logging.ERROR,
    events.OperationEnded: logging.INFO,
}


def _describe(event: Event) -> tuple[str, dict[str, Any]]:
    if isinstance(event, events.MessageEvent):
        return _describe_message(event)
    if isinstance(event, events.ProcessEvent):
        return _describe_process(event)
    if isinstance(event, events.DoorEvent):
        return _describe_door(event)
    return _describe_office(event)


def _describe_message(event: events.MessageEvent) -> tuple[str, dict[str, Any]]:
    match event:
        case events.Completed():
            return "Job completed", _job(event.delivery) | {"durationMs": round(event.duration_s * 1000, 3)}
        case events.RetryScheduled():
            retry = _failed(event.delivery, event.failure, event.max_attempts, retryable=True)
            return "Job failed, scheduling retry", retry | {"nextRetryDelay": event.delay_ms}
        case events.Buried():
            return "Job moved to DLQ", _buried(event)
        case events.Released():
            return _released(event)
        case events.LaneHeld():
            held = _job(event.delivery) | {"errorReason": redact(event.reason)}
            return "Lane held: its messages wait until the cause is fixed", held
        case events.LaneResumed():
            return "Lane runs again", _job(event.delivery)
        case events.SettleRefused():
            return "Settle refused: the lease was no longer ours", _job(event.delivery)
        case events.HandlerOverran():
            late = _job(event.delivery) | {"deadlineS": event.deadline_s}
            return "Handler passed its deadline and still runs in its thread", late
    assert_never(event)


def _describe_process(event: events.ProcessEvent) -> tuple[str, dict[str, Any]]:
    match event:
        case events.LeaseLost():
            return "Lease lost: its messages may run elsewhere", {"queue": event.queue}
        case events.LoopLagged():
            return "Event loop was blocked", {"lagMs": round(event.lag_s * 1000)}
        case events.StoreTrouble():
            trouble = {"doing": event.doing, "error": redact(event.error), "failures": event.failures}
            return "Store does not answer, trying again", trouble
        case events.StoreBack():
            return "Store answers again", {"doing": event.doing, "failures": event.failures}
        case events.LoopFailed():
            return f"Unexpected error in {event.doing}, going on", {"doing": event.doing}
        case events.WorkerStarted():
            started = {"worker": event.worker, "queues": list(event.queues), "store": event.store}
            return "Worker started", started | {"durabilityClass": event.durability}
        case events.WorkerStopping():
            stopping = {"worker": event.worker, "running": event.running, "drainS": event.drain_s}
            return "Worker stops: it takes no new work and finishes what runs", stopping
        case events.WorkerStopped():
            return "Worker stopped", {"worker": event.worker, "released": event.released}
        case events.CleanedUp():
            return "Finished records cleaned up", {"count": event.count}
    assert_never(event)


def _describe_door(event: events.DoorEvent) -> tuple[str, dict[str, Any]]:
    match event:
        case events.RelayLost():
            lost = {"relay": event.relay, "error": redact(event.error)}
            if not event.lasted_s:
                return "Mail relay cannot be reached, mails wait", lost
            return "Mail relay still cannot be reached, mails wait", lost | _outage(event)
        case events.RelayBack():
            return "Mail relay answers again", {"relay": event.relay, **_outage(event)}
        case events.StoreRefusing():
            return "Store refuses new messages, accepted work goes on", {"error": redact(event.error)}
        case events.StoreAccepting():
            return "Store takes new messages again", {}
    assert_never(event)


def _describe_office(event: events.OfficeEvent) -> tuple[str, dict[str, Any]]:
    match event:
        case events.LettersLeaving():
            leaving = {
                "queue": event.queue,
                "count": event.count,
                "leaveAt": timestamp(event.leave_at / 1000),
            }
            return "Dead letters will leave for an archive", leaving | {"folder": event.folder}
        case events.LettersArchived():
            archived = {"queue": event.queue, "count": event.count, "file": event.path}
            return "Dead letters left for an archive", archived
        case events.RetentionFailed():
            failed = {"queue": event.queue, "error": redact(event.error)}
            return "Dead letters should leave and cannot", failed
        case events.OperationHalted():
            halted = {"operation": event.operation, "kind": event.kind, "state": event.state}
            return "Operation stopped by itself", halted | {"why": redact(event.why)}
        case events.OperationEnded():
            ended = {"operation": event.operation, "kind": event.kind, "state": event.state}
            return "Operation ended", ended | {"handled": event.handled, "total": event.total}
    assert_never(event)


def _outage(event: events.RelayLost | events.RelayBack) -> dict[str, Any]:
    return {"waiting": event.waiting, "lastedS": round(event.lasted_s, 1)}


def _job(delivery: Delivery) -> dict[str, Any]:
    message = delivery.message
    return {
        "jobId": message.id,
        "companyId": message.tenant,
        "queue": message.queue,
        "attempt": delivery.progress.attempts,
    }


def _failed(
    delivery: Delivery, failure: Failure, max_attempts: int | None, *, retryable: bool
) -> dict[str, Any]:
    return _job(delivery) | {
        "maxAttempts": max_attempts,
        "errorCode": failure.code,
        "errorReason": redact(failure.reason),
        "isRetryable": retryable,
        "kind": failure.kind.value,
        "fingerprint": failure.fingerprint,
    }


def _buried(event: events.Buried) -> dict[str, Any]:
    failed = _failed(event.delivery, event.failure, event.max_attempts, retryable=False)
    return failed | {
        "reason": event.reason.value,
        "component": "Worker",
        "method": "settle",
        "recordId": event.delivery.message.id,
        "attempts": event.delivery.progress.attempts,
        "error": redact(event.failure.reason),
        "finalStatus": "dead",
    }


def _released(event: events.Released) -> tuple[str, dict[str, Any]]:
    fields = _job(event.delivery) | {"nextRetryDelay": event.delay_ms}
    if event.failure is None or event.failure.kind is not Kind.LOST:
        return "Job given back, no attempt counted", fields
    crashes = event.delivery.progress.crashes + 1
    return "Worker lost, job runs alone next time", fields | {"crashes": crashes}
