"""Totals on Redis: one hash for all processes, in a slot of its own, and a small one an hour and queue."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from redrive.core.totals import (
    BY_QUEUE,
    LABEL_LIMITS,
    MINUTE_MS,
    OTHER,
    LabelKind,
    Minute,
    Total,
    TotalsBatch,
    label_kind,
    total_name,
)
from redrive.stores.redis.client import Argument, Client


class RedisTotals:
    """core.ports.Totals."""

    _client: Client

    async def add_totals(self, batch: TotalsBatch) -> None:
        fields = [field for total in batch.totals for field in _fields(total)]
        await self._client.run("add_totals", _root(self._client), batch.source, batch.number, *fields)

    async def totals(self) -> list[Total]:
        found = await self._client.command("HGETALL", _root(self._client))
        pairs = found.items() if isinstance(found, dict) else zip(found[0::2], found[1::2], strict=True)
        return list(_read(pairs))

    async def minutes(self, queue: str | None, since_at: int) -> list[Minute]:
        most = LABEL_LIMITS[LabelKind.QUEUE]
        rows = await self._client.run("minutes", _root(self._client), since_at, queue or "", most)
        found = [
            Minute(minute * MINUTE_MS, label.decode(), *map(int, counts.split()))
            for minute, label, counts in zip(rows[0::3], rows[1::3], rows[2::3], strict=True)
        ]
        return sorted(found, key=lambda one: (one.at, one.queue))

    async def letter_ages(self, queue: str, instants: Sequence[int]) -> list[int]:
        counts: list[int] = await self._client.run("letter_ages", self._client.queue_key(queue), *instants)
        return counts


async def forget_totals(client: Client, queue: str) -> None:
    """Forget what was counted of a queue that is deleted; its label is another's to get."""
    if queue != OTHER:
        await client.run("forget_totals", _root(client), queue, *(name.value for name in BY_QUEUE))


def _root(client: Client) -> str:
    return client.shelf_key("totals", "all")


def _fields(total: Total) -> tuple[Argument, ...]:
    kind = label_kind(total.name)
    return total.name.value, kind.value, LABEL_LIMITS[kind], total.label, total.part, total.count


def _read(pairs: Iterable[tuple[bytes, bytes]]) -> Iterator[Total]:
    for field, count in pairs:
        text, label, part = field.decode().split("\n")
        name = total_name(text)
        if name is not None:
            yield Total(name, label, part, int(count))
