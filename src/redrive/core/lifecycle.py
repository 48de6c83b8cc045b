"""The life of a message as a table. Everything that changes a state is a row here.

The stores apply these moves atomically; the documentation's diagram and the model in the tests are
made from the same rows. A pair that is not listed is refused: the store changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class State(StrEnum):
    """Where a message is. Scheduled and retrying are WAITING with a later `due_at`."""

    WAITING = "waiting"
    CLAIMED = "claimed"
    DONE = "done"
    DEAD = "dead"
    REMOVED = "removed"


class Move(StrEnum):
    """What can happen to a message."""

    SUBMIT = "submit"
    CLAIM = "claim"
    COMPLETE = "complete"
    RETRY = "retry"
    RELEASE = "release"
    HOLD = "hold"
    BURY = "bury"
    REDRIVE = "redrive"
    RUN_NOW = "run_now"
    CANCEL = "cancel"
    PURGE = "purge"
    DISCARD = "discard"
    REPLACE = "replace"
    ARCHIVE = "archive"
    RESTORE = "restore"
    UNDISCARD = "undiscard"


@dataclass(frozen=True, slots=True)
class Transition:
    """One row: from `before` by `move` to `after`, and what else changes in the same statement."""

    before: State | None
    move: Move
    after: State
    effect: str


TRANSITIONS: tuple[Transition, ...] = (
    Transition(None, Move.SUBMIT, State.WAITING, "deduplicated and enqueued in one step"),
    Transition(State.WAITING, Move.CLAIM, State.CLAIMED, "attempt + 1, lease with the claimer's token"),
    Transition(State.CLAIMED, Move.COMPLETE, State.DONE, "the body goes, a finished record stays"),
    Transition(State.CLAIMED, Move.RETRY, State.WAITING, "failure recorded, due later, crashes cleared"),
    Transition(State.CLAIMED, Move.RELEASE, State.WAITING, "attempt given back; a lost lease adds a crash"),
    Transition(
        State.CLAIMED,
        Move.HOLD,
        State.WAITING,
        "attempt given back, the lane held until a probe gets through",
    ),
    Transition(State.CLAIMED, Move.BURY, State.DEAD, "failure and reason recorded"),
    Transition(State.WAITING, Move.RUN_NOW, State.WAITING, "due now"),
    Transition(State.WAITING, Move.CANCEL, State.REMOVED, "who removed it is recorded"),
    Transition(State.WAITING, Move.PURGE, State.REMOVED, "who removed it is recorded"),
    Transition(State.DEAD, Move.REDRIVE, State.WAITING, "generation + 1, attempts 0, time to live renewed"),
    Transition(State.DEAD, Move.DISCARD, State.REMOVED, "who removed it is recorded, the letter is kept"),
    Transition(State.DEAD, Move.REPLACE, State.REMOVED, "another message carries on, the letter is kept"),
    Transition(State.DEAD, Move.ARCHIVE, State.REMOVED, "written to an archive before; a bare record stays"),
    Transition(State.REMOVED, Move.RESTORE, State.DEAD, "only what was archived, as it was"),
    Transition(
        State.REMOVED, Move.UNDISCARD, State.DEAD, "only what was discarded, as it was; its key stays free"
    ),
)

_AFTER = {(row.before, row.move): row.after for row in TRANSITIONS}


def after(before: State | None, move: Move) -> State | None:
    """The state that `move` leads to from `before`, or None when it is refused."""
    return _AFTER.get((before, move))


def markdown_table() -> str:
    """The table as it stands in docs/lifecycle.md."""
    lines = ["| from | move | to | in the same statement |", "|---|---|---|---|"]
    for row in TRANSITIONS:
        before = row.before or "(new)"
        lines.append(f"| {before} | {row.move} | {row.after} | {row.effect} |")
    return "\n".join(lines)


def mermaid() -> str:
    """The diagram as it stands in docs/lifecycle.md."""
    lines = ["stateDiagram-v2"]
    for row in TRANSITIONS:
        before = row.before or "[*]"
        lines.append(f"    {before} --> {row.after}: {row.move}")
    return "\n".join(lines)
