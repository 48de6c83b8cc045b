"""A lane's row by tables, without a database: what each move does to its counters, and where it stands."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from redrive.core.lanes import LaneState, Ring
from redrive.core.limits import Rate, Window
from redrive.core.message import Lapse
from redrive.stores.rules.lane_row import LaneRow, place_lane, read_lane
from redrive.stores.rules.tallies import Count, Tallies

NOW = 1_000
HELD_BY_VERDICT = {"state": LaneState.HELD, "probe_at": 500}
HELD_BY_PERSON = {"state": LaneState.HELD}


def lane(waiting: int = 0, **changes: Any) -> LaneRow:
    columns = [1, "acme", "running", 1, None, None, None, waiting, 0, 0, 0, 5, 5, 5, 5, None, 0, 0, None]
    return replace(read_lane((*columns, None, None, None, None, 0, 0)), **changes)


MOVES: dict[str, tuple[Callable[[LaneRow], None], dict[str, int]]] = {
    "complete": (lambda one: one.complete(3, 0), {"in_flight": 2, "done": 8}),
    "complete a parent": (lambda one: one.complete(3, 1), {"in_flight": 2, "done": 7, "served": 4}),
    "retry": (lambda one: one.retry("main", 9), {"in_flight": 4, "waits": 1, "came_due_at": 9}),
    "give back": (
        lambda one: one.give_back("main", 9, suspect=False),
        {"in_flight": 4, "waits": 1, "came_due_at": 9},
    ),
    "give back a suspect": (
        lambda one: one.give_back("main", 9, suspect=True),
        {"in_flight": 4, "suspects": 1},
    ),
    "bury": (lambda one: one.bury(tried=True), {"in_flight": 4, "dead": 6}),
    "bury what was taken over": (lambda one: one.bury(tried=False), {"in_flight": 4, "dead": 6}),
    "redrive": (lambda one: one.redrive(9), {"dead": 4, "waits": 1, "came_due_at": 9}),
}
ENDS_A_HOLD = {"complete", "complete a parent", "retry", "bury"}


def counters(one: LaneRow) -> dict[str, int | None]:
    names = ("suspects", "in_flight", "dead", "done", "served", "came_due_at")
    return {name: getattr(one, name) for name in names} | {"waits": one.count()}


@pytest.mark.parametrize("name", MOVES)
@pytest.mark.parametrize("hold", [{}, HELD_BY_VERDICT, HELD_BY_PERSON], ids=["running", "verdict", "person"])
def test_a_move_changes_its_counters_and_what_gets_through_ends_a_verdicts_hold(
    name: str, hold: dict[str, Any]
) -> None:
    move, changed = MOVES[name]
    one = lane(**hold)
    before = counters(one)
    move(one)
    assert counters(one) == before | changed
    ended = hold is HELD_BY_VERDICT and name in ENDS_A_HOLD
    assert one.state is (LaneState.RUNNING if ended or not hold else LaneState.HELD)
    assert one.switched is ended


@pytest.mark.parametrize(("suspect", "waits", "suspects"), [(False, 1, 2), (True, 2, 1)])
def test_what_is_taken_over_waits_no_longer(suspect: bool, waits: int, suspects: int) -> None:
    one = lane(2, suspects=2)
    one.take_over("main", suspect=suspect)
    assert (one.count(), one.suspects, one.in_flight) == (waits, suspects, 6)


def never(_: LaneRow) -> int | None:
    raise AssertionError("the lane knows when its next message is due")


FULL = {"rate": Rate(1, 1.0), "window": Window(500, 1)}
NEW = {"was_idle": True}


@pytest.mark.parametrize(
    ("one", "next_due", "turn", "wake_at"),
    [
        (lane(0, turn=3), never, None, None),
        (lane(1, turn=3), never, 3, None),
        (lane(1, turn=3, state=LaneState.PAUSED), never, None, None),
        (lane(1, turn=3, cap=5), never, None, None),
        (lane(1, turn=3, **FULL), lambda _: 900, None, 1_500),
        (lane(1), lambda _: 900, 10, None),
        (lane(1), lambda _: 2_000, None, 2_000),
        (lane(1), lambda _: None, None, None),
        (lane(1, wake_at=2_000, came_due_at=900), never, 10, None),
        (lane(1, wake_at=2_000, came_due_at=3_000), never, None, 2_000),
        (lane(1, came_due_at=900, **NEW), never, 10, None),
        (lane(1, came_due_at=2_000, **NEW), never, None, 2_000),
        (lane(1, in_flight=0, **HELD_BY_VERDICT), lambda _: 900, 10, None),
        (lane(1, in_flight=0, state=LaneState.HELD, probe_at=4_000), lambda _: 900, None, 4_000),
        (lane(1, **HELD_BY_VERDICT), never, None, None),
        (lane(1, in_flight=0, **HELD_BY_PERSON), never, None, None),
    ],
)
def test_a_lane_is_placed_by_what_its_row_says(
    one: LaneRow, next_due: Callable[[LaneRow], int | None], turn: int | None, wake_at: int | None
) -> None:
    ring = Ring(10, 4, 0)
    joined = place_lane(one, ring, NOW, next_due)
    assert (one.turn, one.wake_at, joined) == (turn, wake_at, turn == 10)
    assert ring.next_turn == (11 if joined else 10)


@pytest.mark.parametrize(("was_idle", "last_round"), [(True, 4), (False, 0)])
def test_rounds_are_counted_from_the_first_message_of_an_idle_lane(was_idle: bool, last_round: int) -> None:
    one = lane(1, was_idle=was_idle, came_due_at=2_000, wake_at=3_000)
    place_lane(one, Ring(10, 4, 0), NOW, never)
    assert one.last_round == last_round


@pytest.mark.parametrize(
    ("attempts", "lapse", "counted"),
    [
        (1, None, 1),
        (2, None, 0),
        (1, Lapse.LOST, 1),
        (0, Lapse.EXPIRED, 1),
        (1, Lapse.EXPIRED, 0),
    ],
)
def test_an_operation_counts_the_first_attempt_after_its_redrive(
    attempts: int, lapse: Lapse | None, counted: int
) -> None:
    tallies = Tallies()
    tallies.judge("op", attempts, lapse, Count.PASSED)
    tallies.add("op", Count.DONE)
    tallies.add(None, Count.DONE)
    tallies.add("other", Count.MOVED, 0)
    assert tallies.rows() == [("op", 0, counted, 0, 1, 0, 0)]
