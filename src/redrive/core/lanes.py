"""Lanes: fairness, pauses and limits without scanning.

A lane is (queue, tenant). It is in the ring while it has due work that may run now, on the timer
until its next message is due, or parked (paused, held, at its cap). `place` says where; `take_turns`
is the walk of a claim: up to 3 x weight from the lane at the head, then the next. The SQL store calls
both; Lua repeats them in one file, rules.lua, which is run on cases that are answered here too.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, TypeVar

from msgspec import Struct

from redrive.core.limits import Rate

T = TypeVar("T")

QUANTUM = 3
BASE_PRIORITY = 5


class LaneState(StrEnum):
    """Whether a lane (or a whole queue) may run. Paused by a person, held by a judgement.

    A held lane still hands out one message at a time, not before its `probe_at`.
    """

    RUNNING = "running"
    PAUSED = "paused"
    HELD = "held"


class Lane(Struct, frozen=True):
    """A lane's counters, as the pages and `status` read them. `rate` bounds its hand-outs.

    `consecutive`: how many it was handed out in a row until now, 0 once another lane was served.
    """

    queue: str
    tenant: str
    state: LaneState = LaneState.RUNNING
    weight: int = 1
    cap: int | None = None
    rate: Rate | None = None
    waiting: int = 0
    in_flight: int = 0
    dead: int = 0
    done: int = 0
    served: int = 0
    last_served_at: int | None = None
    rounds_waited: int = 0
    consecutive: int = 0
    probe_at: int | None = None
    held_reason: str | None = None

    @property
    def priority(self) -> int:
        """Reported, not used for ordering: an order fixed at enqueue would let one burst jump all others."""
        return priority(self.rounds_waited)


class LaneChange(Struct, frozen=True):
    """What to change of a lane; None leaves a field as it is.

    `cap` 0 removes the cap, `unlimited` the rate.
    """

    state: LaneState | None = None
    weight: int | None = None
    cap: int | None = None
    rate: Rate | None = None
    unlimited: bool = False


class Place(StrEnum):
    """Where a lane stands."""

    RING = "ring"
    TIMER = "timer"
    PARKED = "parked"


def priority(rounds_waited: int) -> int:
    """5 for a lane just served, down to 1, the most urgent."""
    return max(1, BASE_PRIORITY - rounds_waited)


def place(
    state: LaneState,
    in_flight: int,
    cap: int | None,
    next_due_at: int | None,
    now: int,
    probe_at: int | None = None,
    free_at: int = 0,
) -> Place:
    """Where a lane belongs, given its next due message (None when it has none waiting).

    `free_at` is when its rate next lets one go (`limits.free_at`).
    """
    run_at = next_run_at(state, next_due_at, probe_at, free_at)
    most = effective_cap(state, cap)
    if run_at is None or (most is not None and in_flight >= most):
        return Place.PARKED
    return Place.RING if run_at <= now else Place.TIMER


def next_run_at(
    state: LaneState, next_due_at: int | None, probe_at: int | None, free_at: int = 0
) -> int | None:
    """When a lane may next hand out: a held one not before its probe, never when it has none."""
    if next_due_at is None or state is LaneState.PAUSED:
        return None
    if state is LaneState.HELD:
        return None if probe_at is None else max(next_due_at, probe_at, free_at)
    return max(next_due_at, free_at)


def effective_cap(state: LaneState, cap: int | None) -> int | None:
    """How many of a lane may be in flight: a held lane sends one probe at a time."""
    return 1 if state is LaneState.HELD else cap


@dataclass(slots=True)
class Turn(Generic[T]):
    """One lane in the ring during a claim.

    `number` orders the ring. `ready` is what the store read ahead for it, and `cut` says that the lane
    has more due work than was read. `consecutive` counts what its present turn has handed out.
    """

    lane: int
    number: int
    quantum: int
    ready: deque[T]
    cut: bool = False
    consecutive: int = 0
    taken: int = 0
    served_round: int | None = None


@dataclass(slots=True)
class Ring:
    """A queue's ring counters: the next free turn number, the round, and the turn that ends it."""

    next_turn: int
    round: int
    round_ends: int

    def rotate(self) -> int:
        """A turn number at the tail."""
        self.next_turn += 1
        return self.next_turn - 1

    def serve(self, number: int) -> int:
        """The round that serving this turn belongs to: passing the mark begins a new one."""
        if number >= self.round_ends:
            self.round += 1
            self.round_ends = self.next_turn
        return self.round


def take_turns(turns: Iterable[Turn[T]], ring: Ring, room: Callable[[T], bool], *, whole: bool) -> list[T]:
    """What a claim hands out, in order. Changes the turns and the ring to what they are afterwards.

    Takes up to its quantum from the lane at the head, then moves it to the tail. Ends when `room` says
    no to the next message; when a lane's read-ahead ends but its work does not; or, where `turns` is
    only the front of the ring (not `whole`), when a lane would be served a second time.
    """
    line = deque(turns)
    taken: list[T] = []
    seen: set[int] = set()
    while line:
        turn = line[0]
        if turn.consecutive >= turn.quantum:
            turn.number, turn.consecutive = ring.rotate(), 0
            seen.add(turn.lane)
            line.rotate(-1)
            continue
        if not whole and turn.lane in seen:
            break
        if not turn.ready:
            if turn.cut:
                break
            line.popleft()
            continue
        before = len(taken)
        full = _hand_out(turn, room, taken)
        if len(taken) > before:
            turn.served_round = ring.serve(turn.number)
            turn.consecutive += len(taken) - before
            turn.taken += len(taken) - before
        if full:
            break
    return taken


def _hand_out(turn: Turn[T], room: Callable[[T], bool], taken: list[T]) -> bool:
    """What is left of one turn; whether the claim is full."""
    ready = turn.ready
    for _ in range(turn.quantum - turn.consecutive):
        if not ready:
            break
        if not room(ready[0]):
            return True
        taken.append(ready.popleft())
    return False
