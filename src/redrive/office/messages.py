"""Single messages: their whole life, why they wait or died, and the two things a person may do to one.

Of several causes the two that must change first are given; texts of failures are redacted. Known weakness:
which worker holds a message is not stored, so it is named only where there is but one; and whether a tenant's
rate is used up at this moment is the store's to know.
"""

from __future__ import annotations

import asyncio
from shlex import quote
from typing import TYPE_CHECKING, assert_never

from redrive.core.lanes import Lane, LaneState
from redrive.core.letters import Account
from redrive.core.lifecycle import Move, State
from redrive.core.redaction import redact
from redrive.core.store import QueueCounts
from redrive.core.verdict import Reason
from redrive.office.audit import Actor, action
from redrive.office.beginnings import whole_id
from redrive.office.documents.letters import ShownMessage, shown_message
from redrive.office.ports import OfficeStore
from redrive.office.queues import live_workers
from redrive.office.view import NotFound, OfficeAnswer, View

if TYPE_CHECKING:
    from redrive.office.office import Office

_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"))


class NoMessage(NotFound):
    """There is no message of this id, or it is not the actor's to see."""

    def __init__(self, message_id: str) -> None:
        super().__init__(
            f"no message {message_id!r} in this store: it may have finished and been cleaned up; check the id"
        )


class NotDead(NotFound):
    """The message is there, and is no dead letter."""

    def __init__(self, account: Account) -> None:
        self.state = account.state
        name = account.message.id
        super().__init__(f"{name} is {account.state}, not a dead letter: see redrive show {quote(name)}")


class Messages:
    """The verbs on single messages."""

    def __init__(self, office: Office, actor: Actor, view: View) -> None:
        self._store = office.store
        self._index = office.index
        self._actor = actor
        self._view = view

    async def whole_id(self, given: str) -> str:
        """The id that is meant: this one, or that of the dead letter that begins so; or AmbiguousId."""
        if await self._store.get(given) is not None:
            return given
        return await whole_id(self._index, given, scope=self._view.scope) or given

    async def find(self, message_id: str) -> Account:
        """The whole life of one message; NoMessage when there is none to see."""
        account = await self._store.get(message_id)
        if account is None or not self._view.sees(account.message.tenant):
            raise NoMessage(message_id)
        return account

    async def show(self, message_id: str, *, reveal: bool = False) -> OfficeAnswer[Account, ShownMessage]:
        """The same as it goes out, with why it waits, where it is, or what became of it and what helps."""
        account = await self.find(message_id)
        mask = await self._view.mask({"ids": [message_id]}, reveal=reveal)
        document = await asyncio.to_thread(shown_message, account, mask, await self.why(account))
        return OfficeAnswer(account, document)

    async def cancel(self, account: Account) -> bool:
        """Remove a waiting message; False when it does not wait any more."""
        message = account.message
        async with action(self._store, self._actor, "cancel", {"ids": [message.id]}) as current:
            moved = await self._store.cancel(message.queue, [message.id], actor=self._actor.name)
            current.result["moved"] = len(moved)
        return bool(moved)

    async def run_now(self, account: Account) -> bool:
        """Make a waiting message due now; False when it does not wait any more."""
        message = account.message
        async with action(self._store, self._actor, "run_now", {"ids": [message.id]}) as current:
            moved = await self._store.run_now(message.queue, [message.id])
            current.result["moved"] = len(moved)
        return bool(moved)

    async def why(self, account: Account) -> str:
        """In one or two sentences: why it waits, where it is, or what became of it and what helps."""
        return await _why(self._store, account)


async def _why(store: OfficeStore, account: Account) -> str:
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
            return await _why_removed(store, account)


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
    return f"{text}. {_help(reason, f'redrive dlq redrive {quote(account.message.id)}')}"


def _help(reason: Reason, redrive: str) -> str:
    match reason:
        case Reason.PERMANENT:
            return f"No attempt can succeed as it is: fix the cause, then {redrive}"
        case Reason.BOUNCED:
            return "The other side refuses this recipient: a re-drive alone would fail again"
        case Reason.EXHAUSTED:
            return f"Once the cause is fixed: {redrive}"
        case Reason.EXPIRED:
            return f"Its time to live passed before an attempt succeeded; if it is still wanted: {redrive}"
        case Reason.WORKER_LOST:
            return f"Each worker that ran it died: look for what it does to the process, then {redrive}"
        case Reason.POISON:
            return f"It cannot be read or does not fit its handler: fix the handler, then {redrive}"
        case Reason.UNCERTAIN:
            return f"The other side may have accepted it: look there first; to risk it twice: {redrive}"
    assert_never(reason)


async def _why_removed(store: OfficeStore, account: Account) -> str:
    removal = account.removal
    if removal is None:
        return "it was removed"
    text = f"{removal.actor} removed it ({removal.move})"
    if removal.move is Move.ARCHIVE:
        text += ". The audit names its archive: redrive audit; to bring it back: redrive dlq restore FILE"
    if account.replaced_by is not None:
        text += f". {await _replacement(store, account.replaced_by)}"
    return text


async def _replacement(store: OfficeStore, message_id: str) -> str:
    found = await store.get(message_id)
    if found is None:
        return f"Message {message_id} took its place, and has finished and been cleaned up since"
    return (
        f"Message {message_id} in {found.message.queue} took its place and is {found.state}: "
        f"redrive show {quote(message_id)}"
    )


async def _why_claimed(store: OfficeStore, account: Account) -> str:
    queue, until_at, now = account.message.queue, account.lease_until_at, store.now()
    workers = [worker for worker in await live_workers(store) if queue in worker.queues]
    who = f"worker {workers[0].name}" if len(workers) == 1 else "a worker"
    text = f"{who} holds it for attempt {account.progress.attempts}"
    if until_at is None:
        return text
    if until_at <= now:
        return f"{text}, and its lease ended {_span(now - until_at)} ago: a live worker will take it over"
    return f"{text}, and is sure of it for {_span(until_at - now)}, longer when it says so"


async def _why_waiting(store: OfficeStore, account: Account) -> str:
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
