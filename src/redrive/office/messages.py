"""Single messages: their whole life, why they wait, and the two things a person may do to one."""

from __future__ import annotations

from redrive.core.lanes import LaneState
from redrive.core.letters import Account
from redrive.core.lifecycle import State
from redrive.core.ports import Store
from redrive.office.audit import Actor, action
from redrive.office.queues import live_workers


class Messages:
    """The verbs on single messages, for one actor."""

    def __init__(self, store: Store, actor: Actor) -> None:
        self._store = store
        self._actor = actor

    async def find(self, message_id: str) -> Account | None:
        """The whole life of one message."""
        return await self._store.get(message_id)

    async def cancel(self, account: Account) -> bool:
        """Remove a waiting message; False when it does not wait any more."""
        async with action(self._store, self._actor, "cancel", {"ids": [account.message.id]}) as current:
            moved = await self._store.cancel(
                account.message.queue, [account.message.id], actor=self._actor.name
            )
            current.result["moved"] = len(moved)
        return bool(moved)

    async def run_now(self, account: Account) -> bool:
        """Make a waiting message due now; False when it does not wait any more."""
        async with action(self._store, self._actor, "run_now", {"ids": [account.message.id]}) as current:
            moved = await self._store.run_now(account.message.queue, [account.message.id])
            current.result["moved"] = len(moved)
        return bool(moved)

    async def why(self, account: Account) -> str:
        """In one sentence: why it waits, where it is, or what became of it."""
        progress = account.progress
        match account.state:
            case State.DONE:
                return "it was handed to its handler, which returned"
            case State.REMOVED if account.removal is not None:
                return f"{account.removal.actor} removed it ({account.removal.move})"
            case State.DEAD:
                last = account.failures[-1].reason if account.failures else ""
                return f"it is a dead letter ({account.reason}): {last}"
            case State.CLAIMED:
                return f"a worker holds it for attempt {progress.attempts}"
            case _:
                return await self._why_waiting(account)

    async def _why_waiting(self, account: Account) -> str:
        message, progress = account.message, account.progress
        now = self._store.now()
        if progress.due_at > now:
            cause = f"its attempt {progress.attempts} failed" if progress.attempts else "it was delayed"
            return f"{cause}; it is due in {(progress.due_at - now) / 1000:.1f} s"
        queue = {counts.queue: counts for counts in await self._store.queues()}.get(message.queue)
        if queue is not None and queue.state is not LaneState.RUNNING:
            return f"queue {message.queue} is {queue.state}: redrive queue resume {message.queue}"
        lane = await self._store.lane(message.queue, message.tenant)
        if lane is not None and lane.state is not LaneState.RUNNING:
            return f"tenant {message.tenant} is {lane.state}"
        if lane is not None and lane.cap is not None and lane.in_flight >= lane.cap:
            return f"tenant {message.tenant} has {lane.in_flight} in flight, as many as its cap allows"
        if not any(message.queue in worker.queues for worker in await live_workers(self._store)):
            return f"no live worker has a handler for {message.queue}: start one with redrive worker"
        if progress.crashes:
            return f"its worker was lost {progress.crashes} times; it waits to run alone"
        return "it is due and waits for its tenant's turn"
