"""Lanes: the walk of a claim, where a lane stands, rounds and priority."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redrive.core.lanes import (
    QUANTUM,
    Lane,
    LaneState,
    Place,
    Ring,
    Turn,
    next_run_at,
    place,
    priority,
    take_turns,
)
from tests.conformance.turns import check_turns

RUNNING, PAUSED, HELD = LaneState.RUNNING, LaneState.PAUSED, LaneState.HELD
NOW = 1_000
Item = tuple[str, int]


def turn(lane: int, count: int, *, weight: int = 1, consecutive: int = 0, cut: bool = False) -> Turn[Item]:
    """The lane-th lane of the ring, named by a letter, with `count` messages read ahead."""
    name = chr(ord("a") + lane)
    ready = deque((name, number) for number in range(count))
    return Turn(lane, lane, QUANTUM * weight, ready, cut=cut, consecutive=consecutive)


def ring_of(turns: list[Turn[Item]]) -> Ring:
    return Ring(next_turn=len(turns), round=0, round_ends=0)


def room_for(limit: int) -> Callable[[Item], bool]:
    """Room for `limit` messages; asked once for each that is taken."""
    left = limit

    def room(_item: Item) -> bool:
        nonlocal left
        left -= 1
        return left >= 0

    return room


def walk(turns: list[Turn[Item]], limit: int = 10_000, *, whole: bool = True) -> str:
    return "".join(name for name, _ in take_turns(turns, ring_of(turns), room_for(limit), whole=whole))


lanes = st.lists(st.tuples(st.integers(0, 20), st.integers(1, 4)), min_size=1, max_size=8)


def turns_of(shape: list[tuple[int, int]]) -> list[Turn[Item]]:
    return [turn(number, count, weight=weight) for number, (count, weight) in enumerate(shape)]


@given(lanes, st.integers(0, 100), st.integers(0, 2))
def test_nobody_has_more_than_its_turn_while_another_waits(
    shape: list[tuple[int, int]], limit: int, began: int
) -> None:
    turns = turns_of(shape)
    turns[0].consecutive = began
    ready = {chr(ord("a") + number): count for number, (count, _) in enumerate(shape)}
    weights = {chr(ord("a") + number): weight for number, (_, weight) in enumerate(shape)}
    order = walk(turns, limit)
    check_turns(order, ready, weights)
    assert len(order) == min(limit, sum(ready.values()))


@given(lanes)
def test_each_lane_keeps_its_own_order(shape: list[tuple[int, int]]) -> None:
    turns = turns_of(shape)
    taken = take_turns(turns, ring_of(turns), room_for(10_000), whole=True)
    for number, (count, _) in enumerate(shape):
        name = chr(ord("a") + number)
        assert [index for lane, index in taken if lane == name] == list(range(count))


@given(lanes, st.lists(st.integers(1, 9), min_size=1, max_size=30))
def test_many_small_claims_hand_out_in_the_order_of_one_large_claim(
    shape: list[tuple[int, int]], limits: list[int]
) -> None:
    expected = walk(turns_of(shape), sum(limits))
    turns = turns_of(shape)
    ring = ring_of(turns)
    order = ""
    for limit in limits:
        standing = sorted((one for one in turns if one.ready), key=lambda one: one.number)
        order += "".join(name for name, _ in take_turns(standing, ring, room_for(limit), whole=True))
    assert order == expected


@given(lanes, st.integers(1, 100))
def test_the_front_of_the_ring_hands_out_as_the_whole_ring_begins(
    shape: list[tuple[int, int]], limit: int
) -> None:
    expected = walk(turns_of(shape), limit)
    assert expected.startswith(walk(turns_of(shape), limit, whole=False))


@pytest.mark.parametrize(
    ("counts", "limit", "order"),
    [
        ([7, 7], 100, "aaabbbaaabbbab"),
        ([5, 2, 8], 100, "aaabbcccaaccccc"),
        ([10], 5, "aaaaa"),
        ([0, 2], 5, "bb"),
        ([3, 3], 0, ""),
        ([], 5, ""),
    ],
)
def test_turns_are_taken_in_order(counts: list[int], limit: int, order: str) -> None:
    assert walk([turn(number, count) for number, count in enumerate(counts)], limit) == order


def test_a_turn_that_began_in_an_earlier_claim_goes_on() -> None:
    assert walk([turn(0, 5, consecutive=2), turn(1, 5)], 5) == "abbba"


def test_a_turn_that_is_used_up_is_over() -> None:
    assert walk([turn(0, 5, consecutive=3), turn(1, 5)], 4) == "bbba"


def test_a_full_turn_moves_to_the_tail_and_a_part_keeps_its_place() -> None:
    turns = [turn(0, 9), turn(1, 9)]
    ring = ring_of(turns)
    take_turns(turns, ring, room_for(5), whole=True)
    assert [(one.number, one.consecutive, one.taken) for one in turns] == [(2, 0, 3), (1, 2, 2)]
    assert ring.next_turn == 3


def test_the_walk_ends_where_the_read_ahead_ends_before_the_work() -> None:
    assert walk([turn(0, 2, cut=True), turn(1, 5)]) == "aa"


def test_a_cut_lane_whose_turn_is_over_does_not_end_the_walk() -> None:
    assert walk([turn(0, 3, cut=True), turn(1, 2)]) == "aaabb"


def test_the_front_of_the_ring_is_served_once() -> None:
    assert walk([turn(0, 9), turn(1, 9)], whole=False) == "aaabbb"


def test_bytes_end_the_walk_at_the_first_message_that_does_not_fit() -> None:
    sizes = {"a": 10, "b": 40}
    left = 55

    def room(item: Item) -> bool:
        nonlocal left
        left -= sizes[item[0]]
        return left >= 0

    turns = [turn(0, 2), turn(1, 3)]
    taken = take_turns(turns, ring_of(turns), room, whole=True)
    assert [name for name, _ in taken] == ["a", "a"]
    assert len(turns[1].ready) == 3


def test_a_round_is_one_pass_of_the_ring() -> None:
    turns = [turn(0, 20), turn(1, 20), turn(2, 20)]
    ring = ring_of(turns)
    rounds = []
    for _ in range(4):
        take_turns(sorted(turns, key=lambda one: one.number), ring, room_for(9), whole=True)
        rounds.append((ring.round, {one.served_round for one in turns}))
    assert rounds == [(1, {1}), (2, {2}), (3, {3}), (4, {4})]


def test_a_lane_that_was_not_served_has_no_round() -> None:
    turns = [turn(0, 5), turn(1, 5)]
    take_turns(turns, ring_of(turns), room_for(3), whole=True)
    assert [one.served_round for one in turns] == [1, None]


@pytest.mark.parametrize(
    ("state", "in_flight", "cap", "next_due_at", "expected"),
    [
        (RUNNING, 0, None, NOW, Place.RING),
        (RUNNING, 0, None, NOW - 1, Place.RING),
        (RUNNING, 0, None, NOW + 1, Place.TIMER),
        (RUNNING, 0, None, None, Place.PARKED),
        (RUNNING, 2, 3, NOW, Place.RING),
        (RUNNING, 3, 3, NOW, Place.PARKED),
        (RUNNING, 4, 3, NOW + 1, Place.PARKED),
        (RUNNING, 10**6, None, NOW, Place.RING),
        (PAUSED, 0, None, NOW, Place.PARKED),
        (PAUSED, 0, None, NOW + 1, Place.PARKED),
        (HELD, 0, None, NOW, Place.PARKED),
    ],
)
def test_a_lane_stands_where_it_belongs(
    state: LaneState, in_flight: int, cap: int | None, next_due_at: int | None, expected: Place
) -> None:
    assert place(state, in_flight, cap, next_due_at, NOW) is expected


@pytest.mark.parametrize(("rounds", "expected"), [(0, 5), (1, 4), (2, 3), (3, 2), (4, 1), (5, 1), (99, 1)])
def test_priority_falls_to_one(rounds: int, expected: int) -> None:
    assert priority(rounds) == expected
    assert Lane("orders", "acme", rounds_waited=rounds).priority == expected


@pytest.mark.parametrize(
    ("in_flight", "due_at", "probe_at", "where"),
    [
        (0, 1_000, None, Place.PARKED),
        (0, 1_000, 2_000, Place.RING),
        (0, 1_000, 2_001, Place.TIMER),
        (0, 3_000, 2_000, Place.TIMER),
        (1, 1_000, 2_000, Place.PARKED),
        (0, None, 2_000, Place.PARKED),
    ],
)
def test_a_held_lane_hands_out_one_probe_at_a_time(
    in_flight: int, due_at: int | None, probe_at: int | None, where: Place
) -> None:
    assert place(LaneState.HELD, in_flight, None, due_at, 2_000, probe_at) is where


@pytest.mark.parametrize(
    ("state", "due_at", "probe_at", "free_at", "expected"),
    [
        (RUNNING, 1_000, None, 0, 1_000),
        (RUNNING, 1_000, None, 2_000, 2_000),
        (RUNNING, 3_000, None, 2_000, 3_000),
        (RUNNING, None, None, 2_000, None),
        (PAUSED, 1_000, None, 2_000, None),
        (HELD, 1_000, None, 2_000, None),
        (HELD, 1_000, 1_500, 2_000, 2_000),
        (HELD, 1_000, 2_500, 2_000, 2_500),
    ],
)
def test_a_lane_runs_when_its_message_its_probe_and_its_rate_let_it(
    state: LaneState, due_at: int | None, probe_at: int | None, free_at: int, expected: int | None
) -> None:
    assert next_run_at(state, due_at, probe_at, free_at) == expected


@pytest.mark.parametrize(
    ("free_at", "in_flight", "where"),
    [(0, 0, Place.RING), (NOW, 0, Place.RING), (NOW + 1, 0, Place.TIMER), (NOW + 1, 3, Place.PARKED)],
)
def test_a_lane_whose_rate_is_used_up_stands_on_the_timer(free_at: int, in_flight: int, where: Place) -> None:
    assert place(RUNNING, in_flight, 3, NOW - 1, NOW, None, free_at) is where
