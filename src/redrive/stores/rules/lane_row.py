"""One lane as its row has it, while a write changes it, and where it stands after the write.

A hold with a `probe_at` was made by a verdict and ends with the first message that gets through; a person's
pause or hold has none, and no verdict changes it. Each method is what one move of a message, or one word of
a person, does to the lane; whoever holds the rows writes them. It then stands in the ring, on the timer or
parked, as `core.lanes.place` says. It may stay in the ring, or wake, with nothing due after its messages
were removed: the next claim finds that out and places it again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import Struct

from redrive.core.lanes import Lane, LaneState, Place, Ring, effective_cap, next_run_at, place
from redrive.core.limits import Rate, Window, free_at, reserve

_UNUSED = Window()
_STATES = {state.value: state for state in LaneState}


class LaneRow(Struct):
    """A lane's row. `waiting` counts its messages by track, suspects left out."""

    lane: int
    tenant: str
    state: LaneState
    weight: int
    cap: int | None
    turn: int | None
    wake_at: int | None
    waiting: dict[str, int]
    suspects: int
    in_flight: int
    dead: int
    done: int
    served: int
    last_served_at: int | None
    last_round: int
    consecutive: int
    last_track: str | None
    probe_at: int | None = None
    held_reason: str | None = None
    rate: Rate | None = None
    window: Window = _UNUSED
    came_due_at: int | None = None
    was_idle: bool = False
    was_at: tuple[int | None, int | None] = (None, None)
    switched: bool = False
    rated: bool = False

    def has_moved(self) -> bool:
        """Whether it stands elsewhere than its row says."""
        return (self.turn, self.wake_at) != self.was_at

    def count(self) -> int:
        """How many wait, suspects left out."""
        return sum(self.waiting.values())

    def may_run(self) -> bool:
        return self.state is LaneState.RUNNING and (self.cap is None or self.in_flight < self.cap)

    def may_probe(self) -> bool:
        """Held by a verdict, with nothing in flight: one message may try, from `probe_at` on."""
        return self.probe_at is not None and self.in_flight < 1

    def room(self, now: int) -> int | None:
        """How many more may be handed out; None when there is no limit."""
        cap = effective_cap(self.state, self.cap)
        room = None if cap is None else cap - self.in_flight
        if self.rate is None:
            return room
        granted = reserve(self.rate, self.window, now, self.rate.count).granted
        return granted if room is None else min(room, granted)

    def free_at(self, now: int) -> int:
        """When its rate next lets one go; 0 for at once, as after the clock was set back."""
        if self.rate is None or self.window.began_at > now:
            return 0
        return free_at(self.rate, self.window)

    def serve(self, count: int, now: int) -> None:
        """Messages were handed out."""
        self.in_flight += count
        self.served += count
        self.last_served_at = now
        if self.rate is not None and count:
            self.window, self.rated = reserve(self.rate, self.window, now, count).window, True

    def complete(self, count: int, parents: int) -> None:
        """Messages were done. A parent is no work of its own: its children are what was asked for."""
        self.in_flight -= count
        self.done += count - parents
        self.served -= parents
        self.end_hold()

    def retry(self, track: str, due_at: int) -> None:
        """A message was tried and waits again; it got through to its handler."""
        self.in_flight -= 1
        self.end_hold()
        self.add(track, due_at)

    def give_back(self, track: str, due_at: int, *, suspect: bool) -> None:
        """A message waits again without having been tried to the end."""
        self.in_flight -= 1
        if suspect:
            self.suspects += 1
        else:
            self.add(track, due_at)

    def bury(self, *, tried: bool) -> None:
        """A message died; one that was only taken over says nothing of a hold."""
        self.in_flight -= 1
        self.dead += 1
        if tried:
            self.end_hold()

    def redrive(self, now: int) -> None:
        """A dead letter waits again."""
        self.dead -= 1
        self.add("redrive", now)

    def take_over(self, track: str, *, suspect: bool) -> None:
        """A waiting message was taken by whoever ends it."""
        self.leave(track, suspect=suspect)
        self.in_flight += 1

    def set_rate(self, rate: Rate | None) -> None:
        """A person's word: it counts what the running period has handed out already."""
        self.rate, self.wake_at, self.switched, self.rated = rate, None, True, True

    def switch(self, state: LaneState) -> None:
        """A person's word: it ends a verdict's hold, whatever the new state is."""
        self.state, self.probe_at, self.held_reason = state, None, None
        self.wake_at, self.switched = None, True

    def hold(self, probe_at: int, reason: str) -> None:
        """A verdict's hold, or a later one in its place; a person's pause or hold wins over it."""
        if self.state is LaneState.RUNNING or self.probe_at is not None:
            self.state, self.probe_at, self.held_reason = LaneState.HELD, probe_at, reason
            self.turn, self.wake_at, self.switched = None, None, True

    def end_hold(self) -> None:
        """A message got through: the whole backlog may run."""
        if self.probe_at is not None:
            self.switch(LaneState.RUNNING)

    def add(self, track: str, due_at: int) -> None:
        """A message came to wait."""
        self.waiting[track] += 1
        self.comes_due(due_at)

    def leave(self, track: str, *, suspect: bool) -> None:
        """A message waits no longer."""
        if suspect:
            self.suspects -= 1
        else:
            self.waiting[track] -= 1

    def comes_due(self, due_at: int) -> None:
        """Work is due at an instant that may be earlier than what was known."""
        if self.came_due_at is None or due_at < self.came_due_at:
            self.came_due_at = due_at

    def noun(self, queue: str, round_: int) -> Lane:
        """The lane as the pages read it."""
        waits_its_turn = self.turn is not None or (self.wake_at is None and self.count() > 0)
        return Lane(
            queue=queue,
            tenant=self.tenant,
            state=self.state,
            weight=self.weight,
            cap=self.cap,
            rate=self.rate,
            waiting=self.count() + self.suspects,
            in_flight=self.in_flight,
            dead=self.dead,
            done=self.done,
            served=self.served,
            last_served_at=self.last_served_at,
            rounds_waited=max(0, round_ - self.last_round) if waits_its_turn else 0,
            probe_at=self.probe_at,
            held_reason=self.held_reason,
        )


def read_lane(row: Any) -> LaneRow:
    """A lane of its row, whose columns are in the order of LaneRow; a rate and its window come last."""
    lane, tenant, state, weight, cap, turn, wake_at, main, bulk, redrive, suspects, in_flight, dead = row[:13]
    done, served, last_served_at, last_round, consecutive, last_track, probe_at, held_reason = row[13:21]
    rate_count, period_s, began_at, used = row[21:]
    found = LaneRow(
        lane,
        tenant,
        _STATES[state],
        weight,
        cap,
        turn,
        wake_at,
        {"main": main, "bulk": bulk, "redrive": redrive},
        suspects,
        in_flight,
        dead,
        done,
        served,
        last_served_at,
        last_round,
        consecutive,
        last_track,
        probe_at,
        held_reason,
    )
    if used:
        found.window = Window(began_at, used)
    if rate_count is not None:
        found.rate = Rate(rate_count, period_s)
    found.was_idle = not (main or bulk or redrive)
    found.was_at = (turn, wake_at)
    return found


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
