"""Why a message waits or died, in one or two sentences that are true now, and what helps.

Of several causes the two that must change first are told; texts of failures are redacted. Known weakness:
which worker holds a message is not stored, so it is named only where there is but one; and whether a tenant's
rate is used up at this moment is the store's to know.
"""

from __future__ import annotations

from shlex import quote

from redrive.core.lanes import Lane, LaneState
from redrive.core.letters import Account
from redrive.core.lifecycle import Move, State
from redrive.core.ports import QueueCounts, Store
from redrive.core.redaction import redact
from redrive.core.verdict import Reason
from redrive.office.queues import live_workers

_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"))
_HELP = {
    Reason.PERMANENT: "No attempt can succeed as it is: mend the cause, then {redrive}",
    Reason.BOUNCED: "The other side refuses this recipient: a re-drive alone would fail again",
    Reason.EXHAUSTED: "Once the cause is mended: {redrive}",
    Reason.EXPIRED: "Its time to live passed before an attempt succeeded; if it is still wanted: {redrive}",
    Reason.WORKER_LOST: "Each worker that ran it died: look for what it does to the process, then {redrive}",
    Reason.POISON: "It cannot be read or does not fit its handler: mend the handler, then {redrive}",
    Reason.UNCERTAIN: "The other side may have accepted it: look there first; to risk it twice: {redrive}",
}


async def why(store: Store, account: Account) -> str:
    """Why a message waits, where it is, or what became of it."""
    match account.state:
        case State.WAITING:
            return await _why_waiting(store, account)
        case State.CLAIMED:
            return await _why_claimed(store, account)
        case State.DONE:
            return "it was handed to its handler, which returned"
        case State.DEAD:
            return _why_dead(account)
        case State.REMOVED:
            return _why_removed(account)


def _why_dead(account: Account) -> str:
    reason = account.reason
    last = account.failures[-1] if account.failures else None
    text = f"it is a dead letter ({reason})"
    if account.progress.attempts:
        text += f" after {_count(account.progress.attempts, 'attempt')}"
    if last is not None:
        text += ": " + redact(last.reason).rstrip(".")
    if reason is None:
        return text
    return f"{text}. {_HELP[reason].format(redrive=f'redrive dlq redrive {quote(account.message.id)}')}"


def _why_removed(account: Account) -> str:
    removal = account.removal
    if removal is None:
        return "it was removed"
    text = f"{removal.actor} removed it ({removal.move})"
    if removal.move is Move.ARCHIVE:
        text += ". The audit names its archive: redrive audit; to bring it back: redrive dlq restore FILE"
    return text


async def _why_claimed(store: Store, account: Account) -> str:
    queue, until_at, now = account.message.queue, account.lease_until_at, store.now()
    workers = [worker for worker in await live_workers(store) if queue in worker.queues]
    who = f"worker {workers[0].name}" if len(workers) == 1 else "a worker"
    text = f"{who} holds it for attempt {account.progress.attempts}"
    if until_at is None:
        return text
    if until_at <= now:
        return f"{text}, and its lease ended {_span(now - until_at)} ago: a live worker will take it over"
    return f"{text}, and is sure of it for {_span(until_at - now)}, longer when it says so"


async def _why_waiting(store: Store, account: Account) -> str:
    message = account.message
    counts = {one.queue: one for one in await store.queues()}.get(message.queue)
    lane = await store.lane(message.queue, message.tenant)
    served = any(message.queue in worker.queues for worker in await live_workers(store))
    causes = [
        _later(account, store.now()),
        _queue_stands(counts),
        _lane_stands(lane, store.now()),
        None
        if served
        else f"no live worker has a handler for {message.queue}: start one with redrive worker",
        _alone(account),
    ]
    told = [cause for cause in causes if cause is not None][:2]
    return "; and ".join(told) or f"it is due and waits for its tenant's turn{_company(lane)}"


def _later(account: Account, now: int) -> str | None:
    progress = account.progress
    if progress.due_at <= now:
        return None
    cause = f"its attempt {progress.attempts} failed" if progress.attempts else "it was delayed"
    return f"{cause}; it is due in {_span(progress.due_at - now)}"


def _queue_stands(counts: QueueCounts | None) -> str | None:
    if counts is None or counts.state is LaneState.RUNNING:
        return None
    return f"queue {counts.queue} is {counts.state}: redrive queue resume {quote(counts.queue)}"


def _lane_stands(lane: Lane | None, now: int) -> str | None:
    if lane is None:
        return None
    if lane.state is LaneState.PAUSED:
        return f"tenant {lane.tenant} is paused: redrive tenant resume {quote(lane.tenant)}"
    if lane.state is LaneState.HELD:
        reason = redact(lane.held_reason or "no reason kept")
        return f"tenant {lane.tenant} is held ({reason}): {_probe(lane, now)}"
    if lane.cap is not None and lane.in_flight >= lane.cap:
        return f"tenant {lane.tenant} has {lane.in_flight} in flight, as many as its cap allows"
    return None


def _probe(lane: Lane, now: int) -> str:
    if lane.probe_at is None or lane.probe_at <= now:
        return "one message tries whether the cause is gone, and then all run"
    return f"one message tries in {_span(lane.probe_at - now)} whether the cause is gone, and then all run"


def _alone(account: Account) -> str | None:
    crashes = account.progress.crashes
    return f"its worker was lost {_count(crashes, 'time')}; it waits to run alone" if crashes else None


def _company(lane: Lane | None) -> str:
    """Who else waits, and what slows them all."""
    if lane is None:
        return ""
    text = (
        f", beside {_count(lane.waiting - 1, 'other message')} of {lane.tenant}" if lane.waiting > 1 else ""
    )
    return text if lane.rate is None else f"{text}; {lane.tenant} gets at most {lane.rate}"


def _count(number: int, word: str) -> str:
    return f"{number:,} {word}{'' if number == 1 else 's'}"


def _span(milliseconds: int) -> str:
    seconds = milliseconds / 1000
    for size, unit in _UNITS:
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.1f} s"
