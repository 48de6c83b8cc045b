"""Feed on Redis: what became of a queue's letters, for a disposable index.

A position is the number of the last change that was told. While a reader is at the beginning, where only
what is dead is told, it also carries the number at which it began: older departures are nothing to it.
"""

from __future__ import annotations

from redrive.core.letters import Change, ChangePage
from redrive.core.ports import PAGE
from redrive.stores.redis.accounts import read_account
from redrive.stores.redis.client import Client
from redrive.stores.redis.ids import unpack_id

_BEGINNING = 1 << 62
_NUMBER_BITS = 31
_NUMBER = (1 << _NUMBER_BITS) - 1
_BEGIN = -1


class RedisFeed:
    """core.ports.Feed."""

    _client: Client

    @property
    def index(self) -> RedisFeed:
        return self

    async def changes(self, queue: str, *, after: int, limit: int = PAGE) -> ChangePage:
        root, page = self._client.queue_key(queue), max(1, min(limit, PAGE))
        number, up_to = _open_position(after)
        reset, up_to, number, more, ids, rows = await self._client.run("changes", root, number, up_to, page)
        stored = {one.message.id: one for one in (read_account(queue, row) for row in rows)}
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
