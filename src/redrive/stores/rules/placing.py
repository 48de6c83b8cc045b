"""Where a lane stands after a write: in the ring, on the timer, or parked, as `core.lanes.place` says.

A lane may stay in the ring, or wake, with nothing due after its messages were removed: the next claim finds
that out and places it again.
"""

from __future__ import annotations

from collections.abc import Callable

from redrive.core.lanes import Place, Ring, next_run_at, place
from redrive.stores.rules.lane_row import LaneRow

NextDue = Callable[[LaneRow], int | None]
"""Finds the earliest waiting message of a lane; asked only where the lane itself does not know."""


def place_lane(lane: LaneRow, ring: Ring, now: int, next_due: NextDue) -> bool:
    """Put a lane where it belongs now; whether it joined the ring."""
    if lane.was_idle and lane.came_due_at is not None:
        lane.last_round = ring.round
    if lane.count() == 0 or not (lane.may_run() or lane.may_probe()):
        lane.turn = lane.wake_at = None
        return False
    if lane.turn is not None and lane.free_at(now) <= now:
        return False
    lane.turn = None
    return _place_outside(lane, ring, now, next_due)


def join_ring(lane: LaneRow, ring: Ring) -> None:
    """To the ring's tail, with a whole turn before it."""
    lane.turn, lane.wake_at, lane.consecutive = ring.rotate(), None, 0
    lane.last_round = ring.round


def _place_outside(lane: LaneRow, ring: Ring, now: int, next_due: NextDue) -> bool:
    if lane.wake_at is None and not lane.was_idle:
        due_at = next_due(lane)
    else:
        due_at = min((at for at in (lane.wake_at, lane.came_due_at) if at is not None), default=None)
    free_at = lane.free_at(now)
    where = place(lane.state, lane.in_flight, lane.cap, due_at, now, lane.probe_at, free_at)
    if where is Place.RING:
        join_ring(lane, ring)
        return True
    lane.wake_at = next_run_at(lane.state, due_at, lane.probe_at, free_at)
    return False
