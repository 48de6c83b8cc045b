"""What people said about a group, and how it therefore stands: open, ignored or resolved.

The record keeps what was said; how the group stands is derived each time it is read. So an ignored group
comes back when its count or date is reached, and a resolved one when a letter dies later, by themselves.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from redrive.core.records import Document

NOTES = 100
NOTE_LENGTH = 2_000
KEY_LENGTH = 500
MOST_COUNT = 1_000_000_000


class GroupState(StrEnum):
    """How a group stands."""

    OPEN = "open"
    IGNORED = "ignored"
    RESOLVED = "resolved"


@dataclass(frozen=True, slots=True)
class Note:
    """What someone wrote on a group."""

    at: int
    actor: str
    text: str


@dataclass(frozen=True, slots=True)
class Said:
    """What was last said of a group, and its notes. An ignored group has a count or an instant to end it."""

    state: GroupState = GroupState.OPEN
    at: int = 0
    actor: str = ""
    until_count: int | None = None
    until_at: int | None = None
    notes: tuple[Note, ...] = ()

    def with_note(self, note: Note) -> Said:
        """With one note more; the oldest goes when there are too many."""
        return replace(self, notes=(*self.notes, note)[-NOTES:])


@dataclass(frozen=True, slots=True)
class Standing:
    """How a group stands now. `reopened` says why it is open although something else was said."""

    state: GroupState
    said: Said
    reopened: str | None = None


def derive(said: Said, *, count: int, last_died_at: int, now: int) -> Standing:
    """How a group of so many letters stands, the last of which died then."""
    reopened = None
    if said.state is GroupState.RESOLVED and last_died_at > said.at:
        reopened = "a letter died after it was resolved"
    elif said.state is GroupState.IGNORED and said.until_count is not None and count >= said.until_count:
        reopened = f"it has {count} letters, and was ignored until {said.until_count}"
    elif said.state is GroupState.IGNORED and said.until_at is not None and now >= said.until_at:
        reopened = "the date until which it was ignored has passed"
    return Standing(said.state if reopened is None else GroupState.OPEN, said, reopened)


def encode(said: Said) -> Document:
    """As it is stored."""
    return {
        "state": said.state.value,
        "at": said.at,
        "actor": said.actor,
        "untilCount": said.until_count,
        "untilAt": said.until_at,
        "notes": [{"at": note.at, "actor": note.actor, "text": note.text} for note in said.notes],
    }


def decode(document: Mapping[str, Any]) -> Said:
    """From what is stored."""
    return Said(
        GroupState(document["state"]),
        document["at"],
        document["actor"],
        document["untilCount"],
        document["untilAt"],
        tuple(Note(note["at"], note["actor"], note["text"]) for note in document["notes"]),
    )
