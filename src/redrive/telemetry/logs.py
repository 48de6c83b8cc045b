"""Events as log lines, with the exact names that dashboards and alerts look for.

Uses the `redrive` logger of the standard library: a library user's own logging configuration applies. The
text of a record says what it is about, since most formats show that alone; our own formats take the record's
`summary` and `fields` instead. How often the same is logged is decided in `log_sink.py`.
Payloads never appear; reasons are redacted, and of the headers only those that name a message are shown.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, assert_never

from redrive.core.failure import Failure, Kind, clip
from redrive.core.message import Delivery
from redrive.core.redaction import redact
from redrive.telemetry import events
from redrive.telemetry.events import Event
from redrive.telemetry.log_format import pairs, timestamp

logger = logging.getLogger("redrive")


def log_event(event: Event) -> None:
    """Log one event."""
    level = level_of(event)
    if not logger.isEnabledFor(level):
        return
    text, fields = describe(event)
    if isinstance(event, events.Concern):
        fields["alert"] = True
    error = event.error if isinstance(event, events.LoopFailed) else None
    write(level, text, fields, _told(event, fields), error)


class LineText:
    """The text of a record, which is put together when a format asks for it; ours do not."""

    __slots__ = ("_text", "_told")

    def __init__(self, text: str, told: Mapping[str, Any]) -> None:
        self._text = text
        self._told = told

    def __str__(self) -> str:
        words = pairs(self._told)
        return f"{self._text}: {words}" if words else self._text


def write(
    level: int,
    text: str,
    fields: Mapping[str, Any],
    told: Mapping[str, Any],
    error: BaseException | None = None,
) -> None:
    """One record: its text with what is `told`, for formats that show no more, and its fields for ours.

    Made here, because the logger would look for the caller's line each time, and that is always this one.
    """
    exc_info = None if error is None else (type(error), error, error.__traceback__)
    extra = {"summary": text, "fields": fields}
    record = logger.makeRecord(
        logger.name, level, __file__, 0, "%s", (LineText(text, told),), exc_info, "write", extra
    )
    logger.handle(record)


def _told(event: Event, fields: Mapping[str, Any]) -> dict[str, Any]:
    """What the text of a record says: of a message the most important, of all else everything."""
    if not isinstance(event, events.MessageEvent):
        return {name: value for name, value in fields.items() if name != "alert"}
    return {word: fields[name] for name, word in WORDS.items() if fields.get(name) is not None}


WORDS = {
    "queue": "queue",
    "jobId": "id",
    "companyId": "tenant",
    "attempt": "attempt",
    "reason": "dead",
    "errorCode": "code",
    "errorReason": "reason",
    "nextRetryDelay": "delayMs",
}


def level_of(event: Event) -> int:
    """How serious an event is: what waits for an outage or a draining worker is not told line by line."""
    if isinstance(event, events.Released) and event.failure is None:
        return logging.DEBUG
    return _LEVELS[type(event)]


def highest_level_of(kind: type[Event]) -> int:
    """How serious an event of this kind can be."""
    return _LEVELS[kind]


_LEVELS: Mapping[type, int] = {
    events.BatchAccepted: logging.DEBUG,
    events.BatchClaimed: logging.DEBUG,
    events.BatchSettled: logging.DEBUG,
    events.Completed: logging.INFO,
    events.RetryScheduled: logging.WARNING,
    events.Buried: logging.ERROR,
    events.Released: logging.WARNING,
    events.LaneHeld: logging.ERROR,
    events.LaneResumed: logging.INFO,
    events.SettleRefused: logging.WARNING,
    events.LeasesExtended: logging.DEBUG,
    events.LeaseLost: logging.WARNING,
    events.HandlerOverran: logging.WARNING,
    events.HandlerRaised: logging.DEBUG,
    events.LoopLagged: logging.WARNING,
    events.StoreTrouble: logging.ERROR,
    events.StoreBack: logging.INFO,
    events.LoopFailed: logging.ERROR,
    events.WorkerStarted: logging.INFO,
    events.WorkerStopping: logging.INFO,
    events.WorkerStopped: logging.INFO,
    events.CleanedUp: logging.DEBUG,
    events.HookFailed: logging.ERROR,
    events.HookDropped: logging.WARNING,
    events.RelayLost: logging.ERROR,
    events.RelayBack: logging.INFO,
    events.StoreRefusing: logging.ERROR,
    events.StoreAccepting: logging.INFO,
    events.LettersLeaving: logging.WARNING,
    events.LettersArchived: logging.WARNING,
    events.RetentionFailed: logging.ERROR,
    events.OperationHalted: logging.ERROR,
    events.OperationEnded: logging.INFO,
    events.AlertFired: logging.WARNING,
    events.AlertCleared: logging.INFO,
    events.ChannelFailed: logging.ERROR,
    events.ChannelBack: logging.INFO,
    events.NoticeDropped: logging.ERROR,
}


def describe(event: Event) -> tuple[str, dict[str, Any]]:
    """The text of an event, and its fields."""
    if isinstance(event, events.MessageEvent):
        return _describe_message(event)
    if isinstance(event, events.BatchEvent):
        return _describe_batch(event)
    if isinstance(event, events.ProcessEvent):
        return _describe_process(event)
    if isinstance(event, events.DoorEvent):
        return _describe_door(event)
    if isinstance(event, events.AlertEvent):
        return _describe_alert(event)
    if isinstance(event, events.HookEvent):
        return _describe_hook(event)
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
        case events.HandlerRaised():
            return "Handler raised", _job(event.delivery) | {"errorReason": redact(event.failure.reason)}
    assert_never(event)


def _describe_batch(event: events.BatchEvent) -> tuple[str, dict[str, Any]]:
    match event:
        case events.BatchAccepted():
            return "Messages accepted", {"queue": event.queue, "count": event.count}
        case events.BatchClaimed():
            return "Messages claimed", {"queue": event.queue, "count": len(event.deliveries)}
        case events.BatchSettled():
            took = {"count": event.count, "durationMs": round(event.duration_s * 1000, 3)}
            return "Outcomes settled", took
        case events.LeasesExtended():
            return "Leases extended", {"count": event.count}
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


def _describe_alert(event: events.AlertEvent) -> tuple[str, dict[str, Any]]:
    match event:
        case events.AlertFired():
            fired = {"rule": event.rule, "severity": event.severity, **_about(event)}
            return "Alert still fires" if event.reminder else "Alert fired", fired | {"value": event.value}
        case events.AlertCleared():
            return "Alert cleared", {"rule": event.rule, **_about(event)}
        case events.ChannelFailed():
            failed = {"channel": event.channel, "error": redact(event.error), "attempts": event.attempts}
            return "Alert channel does not take notices, trying again", failed
        case events.ChannelBack():
            back = {"channel": event.channel, "attempts": event.attempts}
            return "Alert channel takes notices again", back
        case events.NoticeDropped():
            dropped = {"channel": event.channel, "rule": event.rule, "text": redact(event.text)}
            return "Notice given up: its channel took nothing for a day", dropped
    assert_never(event)


def _about(event: events.AlertFired | events.AlertCleared) -> dict[str, Any]:
    named = {"subject": event.subject, "companyId": event.tenant}
    return {name: value for name, value in named.items() if value} | {"text": redact(event.text)}


def _describe_hook(event: events.HookEvent) -> tuple[str, dict[str, Any]]:
    hook = {"hook": event.hook, "on": event.on}
    match event:
        case events.HookFailed():
            return "Hook failed, the work goes on", hook | {"error": redact(event.error)}
        case events.HookDropped():
            return "Hook is too slow, it missed events", hook | {"count": event.count}
    assert_never(event)


def _outage(event: events.RelayLost | events.RelayBack) -> dict[str, Any]:
    return {"waiting": event.waiting, "lastedS": round(event.lasted_s, 1)}


def _job(delivery: Delivery) -> dict[str, Any]:
    message = delivery.message
    fields = {
        "jobId": message.id,
        "companyId": message.tenant,
        "queue": message.queue,
        "attempt": delivery.progress.attempts,
    }
    return fields | _named(message.headers) if message.headers else fields


def _named(headers: Mapping[str, str]) -> dict[str, Any]:
    """What the headers say of where a message belongs, whichever way its sender spells their names."""
    found: dict[str, Any] = {}
    for name, value in headers.items():
        field = _HEADERS.get(name.lower().removeprefix("x-").replace("-", "").replace("_", ""))
        if field is not None:
            found[field] = _trace_id(value) if field == "traceId" else clip(redact(value), _HEADER_LENGTH)
    return found


def _trace_id(traceparent: str) -> str:
    return traceparent.partition("-")[2][:32]


_HEADER_LENGTH = 200
_HEADERS = {
    "correlationid": "correlationId",
    "routingkey": "routingKey",
    "messagetype": "messageType",
    "traceparent": "traceId",
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
        "error": failed["errorReason"],
        "finalStatus": "dead",
    }


def _released(event: events.Released) -> tuple[str, dict[str, Any]]:
    fields = _job(event.delivery) | {"nextRetryDelay": event.delay_ms}
    if event.failure is None or event.failure.kind is not Kind.LOST:
        return "Job given back, no attempt counted", fields
    crashes = event.delivery.progress.crashes + 1
    return "Worker lost, job runs alone next time", fields | {"crashes": crashes}
