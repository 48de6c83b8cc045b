"""Tenants: their lanes, and the switches that a person may set while everything runs.

Without a queue a verb means every queue in which the tenant has a lane now; a queue that it first uses later
is not meant. What is changed takes effect on what already waits, and the audit keeps what was before.
"""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from redrive.core.errors import ConfigurationError
from redrive.core.lanes import Lane, LaneChange, LaneState
from redrive.core.message import check_tenant
from redrive.core.ports import PAGE
from redrive.office.audit import Actor, action
from redrive.office.ports import Switchboard
from redrive.office.queues import Queues
from redrive.office.view import NotFound, View

MOST_WEIGHT = 1_000
MOST_CAP = 1_000_000


class NoTenant(NotFound):
    """No queue has a lane of this tenant, or it is not the actor's to see."""

    def __init__(self, tenant: str) -> None:
        super().__init__(
            f"no tenant {tenant!r} in this store: redrive tenant list shows all; with --queue, one that is "
            "still to come can be set"
        )


class Tenants:
    """The verbs on tenants."""

    def __init__(self, store: Switchboard, actor: Actor, view: View, queues: Queues) -> None:
        self._store = store
        self._actor = actor
        self._view = view
        self._queues = queues

    async def show(self, tenant: str) -> list[Lane]:
        """The lanes of a tenant, one a queue that it has used or that has a setting for it; or NoTenant."""
        check_tenant(tenant)
        found: list[Lane | None] = []
        if self._view.sees(tenant):
            found = [await self._store.lane(queue, tenant) for queue in await self._store.queue_names()]
        lanes = [lane for lane in found if lane is not None]
        if not lanes:
            raise NoTenant(tenant)
        return lanes

    async def every(self, given: str | None = None) -> list[Lane]:
        """Every lane of a queue, or of all, that the actor may see; those with the most dead come first."""
        names = await self._store.queue_names() if given is None else [await self._queues.named(given)]
        lanes = [lane for name in names for lane in await self._every(name)]
        return sorted(lanes, key=lambda lane: (-lane.dead, -lane.waiting, lane.tenant))

    async def page(self, queue: str, *, after: str | None = None, limit: int = 50) -> list[Lane]:
        """Lanes of a queue that the actor may see, by the names of the tenants."""
        if self._view.scope is None:
            return await self._store.lanes(queue, after=after, limit=limit)
        lane = await self._store.lane(queue, self._view.scope)
        return [] if lane is None or after is not None else [lane]

    async def pause(self, tenant: str, queue: str | None = None) -> list[Lane]:
        """Hand out nothing more of a tenant; what runs goes on."""
        return await self._change("pause tenant", tenant, queue, LaneChange(state=LaneState.PAUSED))

    async def resume(self, tenant: str, queue: str | None = None) -> list[Lane]:
        """Hand out again, whether a person paused the tenant or a failure held it."""
        return await self._change("resume tenant", tenant, queue, LaneChange(state=LaneState.RUNNING))

    async def set(self, tenant: str, queue: str | None, change: LaneChange) -> list[Lane]:
        """Change weight, cap or rate; `LaneChange` says how each is removed. Not for who is bound to one."""
        self._view.demand_all()
        if change == LaneChange():
            raise ConfigurationError("nothing to change: give a weight, a cap or a rate")
        if change.weight is not None and not 1 <= change.weight <= MOST_WEIGHT:
            raise ConfigurationError(f"weight is {change.weight}: give 1 to {MOST_WEIGHT:,}")
        if change.cap is not None and not 0 <= change.cap <= MOST_CAP:
            raise ConfigurationError(f"cap is {change.cap}: give 1 to {MOST_CAP:,}, or 0 for none")
        if change.unlimited and change.rate is not None:
            raise ConfigurationError(f"a rate of {change.rate} and no rate: give one of them")
        return await self._change("set tenant", tenant, queue, replace(change, state=None))

    async def _every(self, queue: str) -> list[Lane]:
        found: list[Lane] = []
        while page := await self.page(queue, after=found[-1].tenant if found else None, limit=PAGE):
            found += page
        return found

    async def _change(self, verb: str, tenant: str, given: str | None, change: LaneChange) -> list[Lane]:
        check_tenant(tenant)
        queue = None
        if given is None or not self._view.sees(tenant):
            before = await self.show(tenant)
        else:
            queue = await self._queues.named(given)
            before = [await self._store.lane(queue, tenant) or Lane(queue, tenant)]
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
