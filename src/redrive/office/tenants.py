"""Tenants: their lanes, and the switches that a person may set while everything runs (R17, R19).

Without a queue a verb means every queue in which the tenant has a lane now; a queue that it first uses later
is not meant. What is changed takes effect on what already waits, and the audit keeps what was before.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from redrive.core.errors import ConfigurationError
from redrive.core.lanes import Lane, LaneChange, LaneState
from redrive.core.message import check_queue, check_tenant
from redrive.core.ports import Store
from redrive.office.audit import Actor, action

MOST_WEIGHT = 1_000


class Tenants:
    """The verbs on tenants, for one actor."""

    def __init__(self, store: Store, actor: Actor) -> None:
        self._store = store
        self._actor = actor

    async def lanes(self, tenant: str) -> list[Lane]:
        """The lanes of a tenant, one a queue that it has used or that has a setting for it."""
        check_tenant(tenant)
        found = [await self._store.lane(queue, tenant) for queue in await self._store.queue_names()]
        return [lane for lane in found if lane is not None]

    async def pause(self, tenant: str, queue: str | None = None) -> list[Lane]:
        """Hand out nothing more of a tenant; what runs goes on."""
        return await self._change("pause tenant", tenant, queue, LaneChange(state=LaneState.PAUSED))

    async def resume(self, tenant: str, queue: str | None = None) -> list[Lane]:
        """Hand out again, whether a person paused the tenant or a failure held it."""
        return await self._change("resume tenant", tenant, queue, LaneChange(state=LaneState.RUNNING))

    async def set(self, tenant: str, queue: str | None, change: LaneChange) -> list[Lane]:
        """Change weight, cap or rate; `LaneChange` says how each is removed."""
        if change == LaneChange():
            raise ConfigurationError("nothing to change: give a weight, a cap or a rate")
        if change.weight is not None and not 1 <= change.weight <= MOST_WEIGHT:
            raise ConfigurationError(f"weight is {change.weight}: give 1 to {MOST_WEIGHT:,}")
        if change.cap is not None and change.cap < 0:
            raise ConfigurationError(f"cap is {change.cap}: give at least 1, or 0 for none")
        if change.unlimited and change.rate is not None:
            raise ConfigurationError(f"a rate of {change.rate} and no rate: give one of them")
        return await self._change("set tenant", tenant, queue, replace(change, state=None))

    async def _change(self, verb: str, tenant: str, queue: str | None, change: LaneChange) -> list[Lane]:
        check_tenant(tenant)
        if queue is not None:
            before = [await self._store.lane(check_queue(queue), tenant) or Lane(queue, tenant)]
        else:
            before = await self.lanes(tenant)
        subject = {"tenant": tenant, "queue": queue, "before": [switches(lane) for lane in before]}
        async with action(self._store, self._actor, verb, subject) as current:
            after = [await self._store.set_lane(lane.queue, tenant, change) for lane in before]
            current.result["after"] = [switches(lane) for lane in after]
        return after


def switches(lane: Lane) -> dict[str, Any]:
    """What of a lane a person may set, as the audit keeps it."""
    return {
        "queue": lane.queue,
        "state": lane.state.value,
        "weight": lane.weight,
        "cap": lane.cap,
        "rate": None if lane.rate is None else str(lane.rate),
    }
