"""The transition table: complete, without contradiction, and the source of the diagram."""

from __future__ import annotations

import itertools

import pytest

from redrive.core.lifecycle import TRANSITIONS, Move, State, after, markdown_table, mermaid

EXPECTED = {
    (None, Move.SUBMIT): State.WAITING,
    (State.WAITING, Move.CLAIM): State.CLAIMED,
    (State.CLAIMED, Move.COMPLETE): State.DONE,
    (State.CLAIMED, Move.RETRY): State.WAITING,
    (State.CLAIMED, Move.RELEASE): State.WAITING,
    (State.CLAIMED, Move.HOLD): State.WAITING,
    (State.CLAIMED, Move.BURY): State.DEAD,
    (State.WAITING, Move.RUN_NOW): State.WAITING,
    (State.WAITING, Move.CANCEL): State.REMOVED,
    (State.WAITING, Move.PURGE): State.REMOVED,
    (State.DEAD, Move.REDRIVE): State.WAITING,
    (State.DEAD, Move.DISCARD): State.REMOVED,
    (State.DEAD, Move.REPLACE): State.REMOVED,
    (State.DEAD, Move.ARCHIVE): State.REMOVED,
    (State.REMOVED, Move.RESTORE): State.DEAD,
    (State.REMOVED, Move.UNDISCARD): State.DEAD,
}


@pytest.mark.parametrize(("before", "move"), list(itertools.product((None, *State), Move)))
def test_each_pair_leads_where_the_design_says_or_is_refused(before: State | None, move: Move) -> None:
    assert after(before, move) == EXPECTED.get((before, move))


def test_no_pair_is_listed_twice() -> None:
    pairs = [(row.before, row.move) for row in TRANSITIONS]
    assert len(pairs) == len(set(pairs))


def test_every_move_and_every_state_is_used() -> None:
    assert {row.move for row in TRANSITIONS} == set(Move)
    assert {row.after for row in TRANSITIONS} == set(State)


def test_nothing_leaves_an_end_but_what_was_archived() -> None:
    assert [row for row in TRANSITIONS if row.before is State.DONE] == []
    assert [row.move for row in TRANSITIONS if row.before is State.REMOVED] == [
        Move.RESTORE,
        Move.UNDISCARD,
    ]


def test_only_a_person_ends_a_dead_letter() -> None:
    moves = {row.move for row in TRANSITIONS if row.before is State.DEAD}
    assert moves == {Move.REDRIVE, Move.DISCARD, Move.REPLACE, Move.ARCHIVE}


def test_the_diagram_has_one_line_a_row() -> None:
    lines = mermaid().splitlines()
    assert lines[0] == "stateDiagram-v2"
    assert len(lines) == 1 + len(TRANSITIONS)
    assert "    [*] --> waiting: submit" in lines
    assert "    dead --> waiting: redrive" in lines


def test_the_table_has_one_line_a_row() -> None:
    lines = markdown_table().splitlines()
    assert len(lines) == 2 + len(TRANSITIONS)
    assert lines[2].startswith("| (new) | submit | waiting |")
    assert all(row.effect in line for row, line in zip(TRANSITIONS, lines[2:], strict=True))
