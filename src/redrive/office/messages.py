"""Single messages: their whole life, why they wait, and the two things a person may do to one."""

from __future__ import annotations

from redrive.core.letters import Account
from redrive.core.ports import Store
from redrive.office.audit import Actor, action
from redrive.office.why import why


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
        """In one or two sentences: why it waits, where it is, or what became of it and what helps."""
        return await why(self._store, account)
