"""Tells of each new dead letter of a queue, by a message in a queue beside it, which a handler then serves.

The place is durable: letters are followed by their instant of death, and how far they were told is a record
that is written after the messages are. A process that dies in between tells again, and the messages have the
same ids, so the store knows them. A death is told once it is committed, whoever buried the message. What was
dead before the queue was first followed is not told, nor what is no longer dead when it is looked for.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from uuid import NAMESPACE_OID, uuid5

import msgspec

from redrive.core.errors import VersionConflict
from redrive.core.letters import DeadLetter, as_letter
from redrive.core.lifecycle import State
from redrive.core.message import Entry, Message, expiry
from redrive.core.ports import PAGE, Ledger, Receipt
from redrive.core.records import Record
from redrive.office.filters import Filter
from redrive.office.index import Found, LetterOrder
from redrive.office.index.cursors import Cursor
from redrive.office.office import Office
from redrive.office.queues import queue_term

ENDING = ":on-dead"
RECORDS = "deaths"
OVERLAP_MS = 30_000
"""Letters of the same moment may be committed in another order: so much is looked at again."""

_PAUSE_S = 1.0


class Death(msgspec.Struct, frozen=True):
    """What the message says: which letter, and which of its deaths."""

    id: str
    generation: int


@dataclass(frozen=True, slots=True)
class _Place:
    """Deaths from `since` on are told; those up to `until` were."""

    since: int
    until: int

    def document(self) -> dict[str, Any]:
        return {"since": self.since, "until": self.until}


class Deaths:
    """Follows the deaths of one queue."""

    def __init__(
        self,
        office: Office,
        queue: str,
        append: Callable[[Sequence[Entry]], Awaitable[list[Receipt]]],
    ) -> None:
        self.queue = queue
        self._office = office
        self._store = office.store
        self._append = append
        self._told: dict[str, int] = {}

    async def step(self) -> float:
        """The duty: tell what died, and when to look again."""
        await self.follow()
        return _PAUSE_S

    async def begin(self) -> Record:
        """From when on deaths are told: from now, unless that was said before."""
        record = await self._store.get_record(RECORDS, self.queue)
        if record is None:
            now = self._store.now()
            # Another process that began in the same moment is as good.
            with suppress(VersionConflict):
                await self._store.put_record(RECORDS, self.queue, _Place(now, now).document(), expected=0)
            return await self.begin()
        return record

    async def follow(self) -> int:
        """Tell what died since the last time; how many were told."""
        record = await self.begin()
        place, told = _place(record.document), 0
        if (await self._office.index.catch_up()).behind:
            return 0
        looked_from = max(place.since, place.until - OVERLAP_MS)
        cursor: str | None = str(Cursor(LetterOrder.OLDEST, max(0, looked_from - 1), ""))
        asked, until = Filter((queue_term(self.queue),)), place.until
        while cursor is not None:
            page = await self._office.index.find(asked, after=cursor, limit=PAGE)
            fresh = [one for one in page.letters if one.died_at >= place.since and self._is_fresh(one)]
            await self._tell(fresh)
            told, cursor = told + len(fresh), page.cursor
            until = max([until, *(one.died_at for one in page.letters)])
        if until != place.until:
            await self._move(record, _Place(place.since, until))
        return told

    async def _tell(self, letters: Sequence[Found]) -> None:
        if letters:
            await self._append([self._entry(one) for one in letters])
        self._told |= {_message_id(one): one.died_at for one in letters}

    async def _move(self, record: Record, place: _Place) -> None:
        oldest = place.until - OVERLAP_MS
        self._told = {one: died_at for one, died_at in self._told.items() if died_at >= oldest}
        try:
            await self._store.put_record(RECORDS, self.queue, place.document(), expected=record.version)
        except VersionConflict:
            return  # another process follows too and told the same; the next step reads where it is

    def _is_fresh(self, letter: Found) -> bool:
        return _message_id(letter) not in self._told

    def _entry(self, letter: Found) -> Entry:
        now, queue = self._store.now(), told_in(self.queue)
        ttl_s = self._office.policy(queue).ttl_s
        body = msgspec.json.encode(Death(letter.id, letter.generation))
        message = Message(_message_id(letter), queue, letter.tenant, body, now, ttl_s)
        return Entry(message, now, expiry(now, now, ttl_s))


def told_in(queue: str) -> str:
    """The queue of the messages that tell of a queue's deaths."""
    return f"{queue}{ENDING}"


def telling(
    ledger: Callable[[], Awaitable[Ledger]], function: Callable[[DeadLetter], Awaitable[None]]
) -> Callable[[Death], Awaitable[None]]:
    """The handler of those messages: calls the function with the letter, while it is one."""

    async def tell(death: Death) -> None:
        account = await (await ledger()).get(death.id)
        if account is None or account.state is not State.DEAD:
            return
        if account.progress.generation == death.generation:
            await function(as_letter(account))

    return tell


def _message_id(letter: Found) -> str:
    return str(uuid5(NAMESPACE_OID, f"redrive death {letter.queue} {letter.id} {letter.generation}"))


def _place(document: Mapping[str, Any]) -> _Place:
    return _Place(document["since"], document["until"])
