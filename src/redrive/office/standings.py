"""How tenants stand over several queues: those that have a label, and those whose turn comes next.

With a hundred thousand tenants nobody reads them all: the labels are those of the tenants that are counted by
name, and the front of each ring has those that wait for a turn now.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from redrive.core.lanes import Lane, priority
from redrive.core.store import Lanes, QueueCounts


@dataclass(frozen=True, slots=True)
class TenantStanding:
    """A tenant over several queues: sums, and how it stands where it stands worst.

    `turn` is its place in line, 1 is the next to be served; None while it does not wait for one.
    """

    tenant: str
    processed: int = 0
    waiting: int = 0
    in_flight: int = 0
    dead: int = 0
    rounds_waited: int = 0
    consecutive: int = 0
    last_served_at: int | None = None
    turn: int | None = None

    @property
    def priority(self) -> int:
        return priority(self.rounds_waited)

    def with_lane(self, lane: Lane) -> TenantStanding:
        """With what it has in one queue more."""
        return replace(
            self,
            waiting=self.waiting + lane.waiting,
            in_flight=self.in_flight + lane.in_flight,
            dead=self.dead + lane.dead,
            rounds_waited=max(self.rounds_waited, lane.rounds_waited),
            consecutive=max(self.consecutive, lane.consecutive),
            last_served_at=max(self.last_served_at or 0, lane.last_served_at or 0) or None,
        )


async def standings(
    store: Lanes, processed: Mapping[str, int], queues: Iterable[QueueCounts], *, in_line: int = 0
) -> list[TenantStanding]:
    """How these tenants stand, of each of whom so many messages came to an end, and how the first `in_line`
    of each queue do; of the latter, what came to an end where something is open."""
    busy = [one for one in queues if one.pending or one.processing or one.dlq]
    found = {tenant: TenantStanding(tenant, count) for tenant, count in processed.items()}
    for one in busy if in_line else ():
        line = await store.next_lanes(one.queue, limit=in_line) if one.pending else []
        for turn, lane in enumerate(line, 1):
            had = found.get(lane.tenant) or TenantStanding(lane.tenant)
            found[lane.tenant] = replace(had, turn=min(had.turn or turn, turn))
    for one in busy if found else ():
        for lane in await store.lanes_of(one.queue, list(found)):
            had = found[lane.tenant]
            if lane.tenant not in processed:
                had = replace(had, processed=had.processed + lane.done + lane.dead)
            found[lane.tenant] = had.with_lane(lane)
    return list(found.values())
