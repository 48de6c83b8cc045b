"""Ledger on Redis: single messages, found by looking through the queues, moved by compare-and-set.

Known weakness: `get` asks each queue in turn, and a page of letters of all queues asks every queue for
its first ids.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import Any

from redrive.core.errors import InvalidMessage
from redrive.core.failure import clip
from redrive.core.letters import Account, DeadLetter, LetterKey, LetterPage
from redrive.core.lifecycle import Move
from redrive.core.ports import PAGE
from redrive.stores.redis.accounts import StoredAccount, read_account
from redrive.stores.redis.client import Argument, Client, whole_call
from redrive.stores.redis.outbox import no_parent
from redrive.stores.redis.packing import pack_letter

_ACTOR_BYTES = 256
_DIED_AT_DIGITS = 13


class RedisLedger:
    """core.ports.Ledger."""

    _client: Client

    @whole_call
    async def get(self, message_id: str) -> Account | None:
        for queue in await self._client.queues():
            for stored in await self._read_accounts(queue, [message_id]):
                return stored.account()
        return None

    @whole_call
    async def family(self, parent_id: str) -> list[Account]:
        for queue in await self._client.queues():
            rows: list[list[Any]] = await self._client.run("family", self._client.queue_key(queue), parent_id)
            if rows:
                return [read_account(queue, row).account() for row in rows]
        return []

    @whole_call
    async def letters(self, queue: str | None, *, after: str | None = None, limit: int = PAGE) -> LetterPage:
        queues = await self._client.queues() if queue is None else [queue]
        members: list[tuple[str, str]] = []
        for name in queues:
            members += [(member, name) for member in await self._read_dead(name, after, limit)]
        page = sorted(members)[:limit]
        letters = await self._read_letters(page)
        return LetterPage(letters, page[-1][0] if page and len(page) == limit else None)

    @whole_call
    async def bury(self, letters: Sequence[DeadLetter]) -> AbstractSet[str]:
        by_queue: defaultdict[str, list[Argument]] = defaultdict(list)
        for letter in letters:
            by_queue[letter.message.queue] += pack_letter(letter)
        buried: set[str] = set()
        for queue, arguments in by_queue.items():
            await self._client.know_queue(queue)
            taken, *orphan = await self._client.run("bury", self._client.queue_key(queue), *arguments)
            if orphan:
                raise _refuse_orphan(letters, orphan[0].decode())
            buried.update(one.decode() for one in taken)
        return buried

    async def redrive(
        self, queue: str, letters: Sequence[LetterKey], *, actor: str, operation: str | None = None
    ) -> AbstractSet[str]:
        ids = [letter.id for letter in letters]
        return await self._move("redrive", queue, clip(actor, _ACTOR_BYTES), operation or "", *ids)

    async def remove(
        self,
        queue: str,
        letters: Sequence[LetterKey],
        move: Move,
        *,
        actor: str,
        operation: str | None = None,
    ) -> AbstractSet[str]:
        ids = [letter.id for letter in letters]
        return await self._move("discard", queue, clip(actor, _ACTOR_BYTES), *ids)

    async def cancel(self, queue: str, ids: Sequence[str], *, actor: str) -> AbstractSet[str]:
        return await self._move("cancel", queue, clip(actor, _ACTOR_BYTES), *ids)

    async def purge(self, queue: str, *, actor: str, limit: int = PAGE) -> int:
        root, page = self._client.queue_key(queue), max(0, min(limit, PAGE))
        purged: int = await self._client.run("purge", root, clip(actor, _ACTOR_BYTES), page)
        return purged

    async def run_now(self, queue: str, ids: Sequence[str]) -> AbstractSet[str]:
        return await self._move("run_now", queue, *ids)

    async def _move(self, verb: str, queue: str, *arguments: Argument) -> set[str]:
        moved = await self._client.run(verb, self._client.queue_key(queue), *arguments)
        return {one.decode() for one in moved}

    async def _read_accounts(self, queue: str, ids: Sequence[str]) -> list[StoredAccount]:
        rows: list[list[Any]] = await self._client.run("account", self._client.queue_key(queue), *ids)
        return [read_account(queue, row) for row in rows]

    async def _read_dead(self, queue: str, after: str | None, limit: int) -> list[str]:
        key, start = f"{self._client.queue_key(queue)}:dead", "-" if after is None else f"({after}"
        members = await self._client.command("ZRANGE", key, start, "+", "BYLEX", "LIMIT", 0, limit)
        return [member.decode() for member in members]

    async def _read_letters(self, page: Sequence[tuple[str, str]]) -> tuple[DeadLetter, ...]:
        by_queue: defaultdict[str, list[str]] = defaultdict(list)
        for member, queue in page:
            by_queue[queue].append(member[_DIED_AT_DIGITS:])
        found: dict[str, DeadLetter] = {}
        for queue, ids in by_queue.items():
            for stored in await self._read_accounts(queue, ids):
                letter = stored.letter()
                if letter is not None:
                    found[letter.message.id] = letter
        ordered = (found.get(member[_DIED_AT_DIGITS:]) for member, _ in page)
        return tuple(letter for letter in ordered if letter is not None)


def _refuse_orphan(letters: Sequence[DeadLetter], child_id: str) -> InvalidMessage:
    child = next(letter.message for letter in letters if letter.message.id == child_id)
    return InvalidMessage(no_parent(child))
