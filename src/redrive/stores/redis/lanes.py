"""Lanes on Redis: counters as the scripts keep them, and the switches people may set."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from redrive.core.errors import ConfigurationError
from redrive.core.lanes import Lane, LaneChange, LaneState
from redrive.core.limits import Rate
from redrive.core.message import check_queue, check_tenant
from redrive.core.ports import PAGE
from redrive.core.settings import FinishedSettings
from redrive.core.store import Deletion, QueueCounts
from redrive.stores.redis.client import Client, to_ms, whole_call
from redrive.stores.redis.totals import forget_totals

_MOST = 1_000_000_000


class _LaneRow(NamedTuple):
    """What placement.lua answers for a lane; -1 is no cap, 0 no rate, no probe, and never served."""

    tenant: bytes
    state: bytes
    weight: int
    cap: int
    rate_count: int
    rate_period_ms: int
    waiting: int
    in_flight: int
    dead: int
    done: int
    served: int
    last_served_at: int
    rounds_waited: int
    consecutive: int
    probe_at: int
    held_reason: bytes


class RedisLanes:
    """core.store.Lanes."""

    _client: Client
    _finished: FinishedSettings

    @whole_call
    async def queues(self) -> list[QueueCounts]:
        counts = []
        for queue in await self._client.queues():
            row = await self._client.run("queues", self._client.queue_key(queue))
            if row:
                counts.append(_read_counts(queue, row))
        return counts

    async def lanes(self, queue: str, *, after: str | None = None, limit: int = PAGE) -> list[Lane]:
        rows = await self._client.run("lanes", self._client.queue_key(queue), after or "", max(0, limit))
        return [_read_lane(queue, row) for row in rows]

    async def lane(self, queue: str, tenant: str) -> Lane | None:
        row = await self._client.run("lane", self._client.queue_key(queue), tenant)
        return _read_lane(queue, row) if row else None

    async def lanes_of(self, queue: str, tenants: Sequence[str]) -> list[Lane]:
        rows = await self._client.run("lanes_of", self._client.queue_key(queue), *tenants)
        return [_read_lane(queue, row) for row in rows]

    async def next_lanes(self, queue: str, *, limit: int = PAGE) -> list[Lane]:
        rows = await self._client.run("next_lanes", self._client.queue_key(queue), max(0, limit))
        return [_read_lane(queue, row) for row in rows]

    @whole_call
    async def set_lane(self, queue: str, tenant: str, change: LaneChange) -> Lane:
        _check_change(change)
        async with self._client.listed(check_queue(queue)):
            row = await self._client.run(
                "set_lane",
                self._client.queue_key(queue),
                check_tenant(tenant),
                change.state.value if change.state else "",
                0 if change.weight is None else change.weight,
                -1 if change.cap is None else change.cap,
                *_rate_arguments(change),
            )
        return _read_lane(queue, row)

    @whole_call
    async def set_queue(self, queue: str, state: LaneState) -> None:
        async with self._client.listed(check_queue(queue)):
            await self._client.run("set_queue", self._client.queue_key(queue), state.value)

    @whole_call
    async def delete_queue(self, queue: str, *, limit: int = PAGE) -> Deletion:
        root, page = self._client.queue_key(queue), max(1, min(limit, PAGE))
        remember_ms = to_ms(self._finished.remember_s)
        gone, removed, waiting, running, dead, until_at = await self._client.run(
            "delete_queue", root, remember_ms, page
        )
        if gone:  # it is listed until nothing is left of it, so that whoever is interrupted can ask again
            await forget_totals(self._client, queue)
            await self._client.unlist_queue(queue)
        return Deletion(bool(gone), removed, waiting, running, dead, until_at if until_at >= 0 else None)


def _check_change(change: LaneChange) -> None:
    if change.weight is not None and not 1 <= change.weight <= _MOST:
        raise ConfigurationError(f"a lane's weight is 1 to {_MOST}, not {change.weight}")
    if change.cap is not None and not 0 <= change.cap <= _MOST:
        raise ConfigurationError(f"a lane's cap is 1 to {_MOST}, or 0 to remove it, not {change.cap}")


def _rate_arguments(change: LaneChange) -> tuple[int, int]:
    if change.unlimited:
        return 0, 0
    return (-1, 0) if change.rate is None else (change.rate.count, to_ms(change.rate.period_s))


def _read_counts(queue: str, row: list[Any]) -> QueueCounts:
    state, pending, scheduled, retry_scheduled, processing, published, dlq, suspects, oldest_due_at = row
    return QueueCounts(
        queue,
        LaneState(state.decode()),
        pending,
        scheduled,
        retry_scheduled,
        processing,
        published,
        dlq,
        suspects,
        oldest_due_at if oldest_due_at >= 0 else None,
    )


def _read_lane(queue: str, answer: list[Any]) -> Lane:
    row = _LaneRow._make(answer)
    return Lane(
        queue,
        row.tenant.decode(),
        LaneState(row.state.decode()),
        weight=row.weight,
        cap=row.cap if row.cap >= 0 else None,
        rate=Rate(row.rate_count, row.rate_period_ms / 1000) if row.rate_count else None,
        waiting=row.waiting,
        in_flight=row.in_flight,
        dead=row.dead,
        done=row.done,
        served=row.served,
        last_served_at=row.last_served_at or None,
        rounds_waited=row.rounds_waited,
        consecutive=row.consecutive,
        probe_at=row.probe_at or None,
        held_reason=row.held_reason.decode() if row.probe_at else None,
    )
