"""Moves on Redis: what people do to single messages, each by compare-and-set in one script call a queue."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet

from redrive.core.errors import InvalidMessage
from redrive.core.failure import clip
from redrive.core.letters import DeadLetter, LetterKey
from redrive.core.lifecycle import Move
from redrive.core.ports import PAGE
from redrive.stores.redis.append import no_parent
from redrive.stores.redis.client import Argument, Client, whole_call
from redrive.stores.redis.frames import pack_id, unpack_id
from redrive.stores.redis.packed import pack_letter

_ACTOR_BYTES = 256
_REMOVALS = (Move.DISCARD, Move.REPLACE, Move.ARCHIVE)


class RedisMoves:
    """core.ports.Moves."""

    _client: Client

    async def redrive(
        self, queue: str, letters: Sequence[LetterKey], *, actor: str, operation: str | None = None
    ) -> AbstractSet[str]:
        head = (clip(actor, _ACTOR_BYTES), operation or "")
        return await self._move("redrive", queue, *head, *pack_letter_keys(letters))

    async def remove(
        self,
        queue: str,
        letters: Sequence[LetterKey],
        move: Move,
        *,
        actor: str,
        operation: str | None = None,
    ) -> AbstractSet[str]:
        if move not in _REMOVALS:
            raise ValueError(f"{move} does not remove a dead letter: discard, replace or archive do")
        head = (clip(actor, _ACTOR_BYTES), operation or "", move.value)
        return await self._move("remove", queue, *head, *pack_letter_keys(letters))

    async def undiscard(
        self, queue: str, letters: Sequence[LetterKey], *, operation: str | None = None
    ) -> AbstractSet[str]:
        return await self._move("undiscard", queue, operation or "", *pack_letter_keys(letters))

    @whole_call
    async def bury(self, letters: Sequence[DeadLetter]) -> AbstractSet[str]:
        by_queue: defaultdict[str, list[Argument]] = defaultdict(list)
        sent: set[tuple[str, str | None]] = set()
        for letter in letters:
            family = (letter.message.queue, letter.message.parent)
            by_queue[letter.message.queue] += pack_letter(letter, with_parent=family not in sent)
            if letter.shared is not None:
                sent.add(family)
        buried: set[str] = set()
        for queue, arguments in by_queue.items():
            async with self._client.listed(queue):
                taken, *orphan = await self._client.run("bury", self._client.queue_key(queue), *arguments)
            if orphan:
                raise _refuse_orphan(letters, unpack_id(orphan[0]))
            buried.update(map(unpack_id, taken))
        return buried

    async def cancel(self, queue: str, ids: Sequence[str], *, actor: str) -> AbstractSet[str]:
        return await self._move("cancel", queue, clip(actor, _ACTOR_BYTES), *map(pack_id, ids))

    async def purge(self, queue: str, *, actor: str, tenant: str | None = None, limit: int = PAGE) -> int:
        root, page = self._client.queue_key(queue), max(0, min(limit, PAGE))
        purged: int = await self._client.run("purge", root, clip(actor, _ACTOR_BYTES), page, tenant or "")
        return purged

    async def run_now(self, queue: str, ids: Sequence[str]) -> AbstractSet[str]:
        return await self._move("run_now", queue, *map(pack_id, ids))

    async def _move(self, verb: str, queue: str, *arguments: Argument) -> set[str]:
        moved = await self._client.run(verb, self._client.queue_key(queue), *arguments)
        return set(map(unpack_id, moved))


def pack_letter_keys(letters: Sequence[LetterKey]) -> Iterator[Argument]:
    for letter in letters:
        yield pack_id(letter.id)
        yield -1 if letter.generation is None else letter.generation


def _refuse_orphan(letters: Sequence[DeadLetter], child_id: str) -> InvalidMessage:
    child = next(letter.message for letter in letters if letter.message.id == child_id)
    return InvalidMessage(no_parent(child))
