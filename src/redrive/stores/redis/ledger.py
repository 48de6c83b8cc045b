"""Ledger and feed on Redis: single messages, dead letters by death, operations, and changes for an index.

Known weakness: an id does not tell its queue, so `get` and `family` ask every queue at once, and a page of
letters of all queues asks every queue for its first ids.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from typing import Any, NamedTuple

from redrive.core.errors import InvalidMessage
from redrive.core.letters import (
    Account,
    Change,
    ChangePage,
    DeadLetter,
    LetterPage,
    MessagePage,
    MessagePhase,
    OperationTally,
)
from redrive.core.ports import PAGE
from redrive.stores.redis.answers import StoredAccount, read_accounts, read_listed
from redrive.stores.redis.client import Argument, Client, whole_call
from redrive.stores.redis.frames import pack_id, unpack_id

_DIED_AT_DIGITS = 13
_DIED_AT_BYTES = 6
_BEGINNING = 1 << 62
_NUMBER_BITS = 31
_NUMBER = (1 << _NUMBER_BITS) - 1
_BEGIN = -1


class _Dead(NamedTuple):
    """A member of a queue's :dead: the instant of the death and the id."""

    member: bytes
    queue: str

    @property
    def raw_id(self) -> bytes:
        return self.member[_DIED_AT_BYTES:]


class RedisLedger:
    """core.ports.Ledger."""

    _client: Client

    @whole_call
    async def get(self, message_id: str) -> Account | None:
        for queue, rows in await self._ask_queues("accounts", pack_id(message_id)):
            for one in read_accounts(queue, rows):
                return one.account()
        return None

    @whole_call
    async def accounts(self, queue: str, ids: Sequence[str]) -> list[Account]:
        found: list[Account] = []
        for start in range(0, len(ids), PAGE):
            page = await self._read_accounts(queue, [pack_id(one) for one in ids[start : start + PAGE]])
            found += [stored.account() for stored in page]
        return found

    @whole_call
    async def family(self, parent_id: str) -> list[Account]:
        for queue, rows in await self._ask_queues("family", pack_id(parent_id)):
            if rows:
                return [one.account() for one in read_accounts(queue, rows)]
        return []

    @whole_call
    async def letters(self, queue: str | None, *, after: str | None = None, limit: int = PAGE) -> LetterPage:
        queues = await self._client.queues() if queue is None else [queue]
        start = b"-" if after is None else b"(" + _read_cursor(after)
        dead: list[_Dead] = []
        for name in queues:
            key = f"{self._client.queue_key(name)}:dead"
            found = await self._client.command("ZRANGE", key, start, "+", "BYLEX", "LIMIT", 0, limit)
            dead += [_Dead(member, name) for member in found]
        page = sorted(dead)[:limit]
        letters = await self._read_letters(page)
        return LetterPage(letters, _write_cursor(page[-1].member) if page and len(page) == limit else None)

    async def messages(
        self,
        queue: str,
        phase: MessagePhase,
        *,
        tenant: str | None = None,
        after: str | None = None,
        limit: int = PAGE,
    ) -> MessagePage:
        root, page = self._client.queue_key(queue), max(1, min(limit, PAGE))
        place = _read_place(after) if after is not None else ("", 0, b"")
        rows, rest = await self._client.run("messages", root, phase.value, tenant or "", page, *place)
        listed = tuple(read_listed(queue, phase, row) for row in rows)
        return MessagePage(listed, _write_place(*rest) if rest else None)

    @whole_call
    async def tally(self, operation: str) -> OperationTally:
        counted = [counts for _, counts in await self._ask_queues("tally", operation)]
        return OperationTally(*(sum(column) for column in zip(*counted, strict=True)))

    async def _ask_queues(self, verb: str, argument: Argument) -> list[tuple[str, Any]]:
        queues = await self._client.queues()
        asked = (self._client.run(verb, self._client.queue_key(queue), argument) for queue in queues)
        return list(zip(queues, await asyncio.gather(*asked), strict=True))

    async def _read_accounts(self, queue: str, ids: Sequence[bytes]) -> list[StoredAccount]:
        rows: list[list[Any]] = await self._client.run("accounts", self._client.queue_key(queue), *ids)
        return read_accounts(queue, rows)

    async def _read_letters(self, page: Sequence[_Dead]) -> tuple[DeadLetter, ...]:
        by_queue: defaultdict[str, list[bytes]] = defaultdict(list)
        for dead in page:
            by_queue[dead.queue].append(dead.raw_id)
        found: dict[str, DeadLetter] = {}
        for queue, ids in by_queue.items():
            for stored in await self._read_accounts(queue, ids):
                letter = stored.letter()
                if letter is not None:
                    found[letter.message.id] = letter
        ordered = (found.get(unpack_id(dead.raw_id)) for dead in page)
        return tuple(letter for letter in ordered if letter is not None)


def _write_cursor(member: bytes) -> str:
    died_at = int.from_bytes(member[:_DIED_AT_BYTES], "big")
    return f"{died_at:0{_DIED_AT_DIGITS}}{unpack_id(member[_DIED_AT_BYTES:])}"


def _read_cursor(cursor: str) -> bytes:
    digits = cursor[:_DIED_AT_DIGITS]
    if len(digits) < _DIED_AT_DIGITS or not (digits.isascii() and digits.isdigit()):
        raise InvalidMessage(f"cursor {cursor!r} is none of ours: begin again without one")
    return int(digits).to_bytes(_DIED_AT_BYTES, "big") + pack_id(cursor[_DIED_AT_DIGITS:])


def _write_place(name: bytes, source: int, last: bytes) -> str:
    return f"{name.decode()}/{source}/{last.hex()}"


def _read_place(cursor: str) -> tuple[str, int, bytes]:
    name, _, rest = cursor.partition("/")
    source, _, last = rest.partition("/")
    try:
        return name, int(source), bytes.fromhex(last)
    except ValueError:
        raise InvalidMessage(
            f"{cursor[:40]!r} is not a cursor: use the one that the last page gave"
        ) from None


class RedisFeed:
    """core.store.Feed.

    A position is the number of the last change that was told. While a reader is at the beginning, where only
    what is dead is told, it also carries the number at which it began: older departures are nothing to it.
    """

    _client: Client

    @property
    def index(self) -> RedisFeed:
        return self

    async def changes(self, queue: str, *, after: int, limit: int = PAGE) -> ChangePage:
        root, page = self._client.queue_key(queue), max(1, min(limit, PAGE))
        number, up_to = _open_position(after)
        reset, up_to, number, more, ids, rows = await self._client.run("changes", root, number, up_to, page)
        stored = {one.message.id: one for one in read_accounts(queue, rows)}
        names = [unpack_id(raw) for raw in ids]
        changes = tuple(Change(name, stored[name].letter() if name in stored else None) for name in names)
        return ChangePage(changes, _make_position(number, up_to), bool(more), bool(reset))


def _open_position(position: int) -> tuple[int, int]:
    if position == 0:
        return 0, _BEGIN
    if position & _BEGINNING:
        return position & _NUMBER, position >> _NUMBER_BITS & _NUMBER
    return position, 0


def _make_position(number: int, up_to: int) -> int:
    return _BEGINNING | up_to << _NUMBER_BITS | number if up_to else number
