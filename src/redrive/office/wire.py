"""How letters and lives look on the wire: JSON in camelCase with the names of R8, times with Z."""

from __future__ import annotations

import base64
import json
import math
from datetime import UTC, datetime
from typing import Any

from redrive.core.failure import Failure, Kind
from redrive.core.lanes import Lane
from redrive.core.letters import Account, DeadLetter, Redriven
from redrive.office.queues import QueueStatus

_COUNTED = frozenset((Kind.TEMPORARY, Kind.PERMANENT, Kind.UNCERTAIN))
RETENTION_MS = 7 * 86_400_000


def instant(at: int | None) -> str | None:
    """ISO 8601 with milliseconds and Z."""
    if at is None:
        return None
    moment = datetime.fromtimestamp(at // 1000, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{at % 1000:03d}Z"


def payload(body: bytes) -> Any:
    """The body as JSON where it is JSON; otherwise its bytes in base64 under one key."""
    try:
        return json.loads(body, parse_constant=_float, parse_float=_float)
    except (ValueError, RecursionError):
        return {"base64": base64.b64encode(body).decode("ascii")}


def whole_payload(body: bytes, shared: bytes | None) -> Any:
    """The payload on top of what it shares with its siblings, where both are JSON objects."""
    own = payload(body)
    common = None if shared is None else payload(shared)
    if isinstance(own, dict) and isinstance(common, dict) and {"base64"} not in (own.keys(), common.keys()):
        return {**common, **own}
    return own


def _float(text: str) -> float:
    """A number that JSON can write again: a body with NaN, or with one that is too large, is not JSON."""
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} is not a number of JSON")
    return number


def letter_document(letter: DeadLetter) -> dict[str, Any]:
    """A dead letter as in R8."""
    message = letter.message
    last = letter.failures[-1] if letter.failures else None
    return {
        "jobId": message.id,
        "outboxId": message.id,
        "companyId": message.tenant,
        "queue": message.queue,
        "reason": letter.reason.value,
        "originalData": whole_payload(message.body, letter.shared),
        "failedAttempts": failed_attempts(letter),
        "lastFailureReason": last.reason if last else letter.reason.value,
        "lastFailureCode": last.code if last else None,
        "lastFailureTimestamp": instant(last.at if last else letter.died_at),
        "enqueuedAt": instant(message.enqueued_at),
        "movedToDLQAt": instant(letter.died_at),
        "ttl": RETENTION_MS,
        "generation": letter.progress.generation,
        "fingerprint": letter.fingerprint,
        "failures": [failure_document(failure) for failure in letter.failures],
        "redrives": [redrive_document(redriven) for redriven in letter.redrives],
    }


def account_document(account: Account) -> dict[str, Any]:
    """The whole life of one message."""
    message, progress, removal = account.message, account.progress, account.removal
    return {
        "jobId": message.id,
        "companyId": message.tenant,
        "queue": message.queue,
        "track": message.track.value,
        "state": progress.state.value,
        "attempts": progress.attempts,
        "crashes": progress.crashes,
        "generation": progress.generation,
        "dedupe": message.dedupe,
        "headers": dict(message.headers),
        "originalData": whole_payload(message.body, account.shared) if message.body else None,
        "enqueuedAt": instant(message.enqueued_at),
        "dueAt": instant(progress.due_at),
        "expiresAt": instant(progress.expires_at),
        "leaseUntil": instant(account.lease_until_at),
        "reason": account.reason.value if account.reason else None,
        "movedToDLQAt": instant(account.died_at),
        "finishedAt": instant(account.finished_at),
        "removal": removal
        and {"at": instant(removal.at), "move": removal.move.value, "actor": removal.actor},
        "failures": [failure_document(failure) for failure in account.failures],
        "redrives": [redrive_document(redriven) for redriven in account.redrives],
    }


def queue_document(status: QueueStatus) -> dict[str, Any]:
    """A queue with the names of R24."""
    counts = status.counts
    return {
        "queue": counts.queue,
        "state": counts.state.value,
        "pending": counts.pending,
        "scheduled": counts.scheduled,
        "retryScheduled": counts.retry_scheduled,
        "processing": counts.processing,
        "published": counts.published,
        "dlq": counts.dlq,
        "failed": 0,
        "suspects": counts.suspects,
        "oldestDueAt": instant(counts.oldest_due_at),
        "workers": status.workers,
        "noHandler": status.no_handler,
    }


def lane_document(lane: Lane) -> dict[str, Any]:
    """A tenant with the names of R17."""
    return {
        "companyId": lane.tenant,
        "queue": lane.queue,
        "state": lane.state.value,
        "lastProcessedAt": instant(lane.last_served_at),
        "roundsWithoutProcessing": lane.rounds_waited,
        "currentPriority": lane.priority,
        "totalProcessed": lane.done,
        "consecutiveBatchCount": lane.consecutive,
        "waiting": lane.waiting,
        "inFlight": lane.in_flight,
        "dead": lane.dead,
        "weight": lane.weight,
        "cap": lane.cap,
        "rate": None if lane.rate is None else str(lane.rate),
        "heldReason": lane.held_reason,
        "probeAt": instant(lane.probe_at),
    }


def failure_document(failure: Failure) -> dict[str, Any]:
    """One failed attempt."""
    return {
        "timestamp": instant(failure.at),
        "attempt": failure.attempt,
        "kind": failure.kind.value,
        "code": failure.code,
        "reason": failure.reason,
        "scope": failure.scope.value if failure.scope else None,
        "fingerprint": failure.fingerprint,
        "traceback": failure.traceback,
    }


def redrive_document(redriven: Redriven) -> dict[str, Any]:
    """One re-drive and what came of it."""
    return {
        "timestamp": instant(redriven.at),
        "generation": redriven.generation,
        "actor": redriven.actor,
        "operation": redriven.operation,
        "result": redriven.result.value,
    }


def failed_attempts(letter: DeadLetter) -> int:
    """How many attempts failed since the last re-drive."""
    since_at = letter.redrives[-1].at if letter.redrives else 0
    return sum(failure.kind in _COUNTED and failure.at >= since_at for failure in letter.failures)
