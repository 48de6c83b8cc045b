"""What a broker's own commands are given and give back, so that no face knows a broker.

A room lists its commands in `commands.GROUPS`: functions whose first argument is a `ToolDesk`. A face makes
the desk, offers the functions under their names, and turns an outcome into what its users know.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Concatenate, Protocol


class Terminal(Protocol):
    """Where a command answers and asks."""

    def answer(self, document: object, render: Callable[[], str]) -> None:
        """The answer, as JSON or in words, whichever was asked for."""
        ...

    def note(self, message: str) -> None:
        """A line for people, beside the answer."""
        ...

    async def confirm(self, question: str, *, yes: bool) -> bool:
        """Whether to go on."""
        ...


@dataclass(frozen=True, slots=True)
class ToolDesk:
    """One run of a command: where it answers, and the broker and topology that the settings name."""

    terminal: Terminal
    url: str
    topology: str | None


class ToolOutcome(StrEnum):
    """How a command ended: all done, declined or not as it should be, or only in part."""

    DONE = "done"
    FAILED = "failed"
    PARTIAL = "partial"


Tool = Callable[Concatenate[ToolDesk, ...], Awaitable[ToolOutcome]]
Groups = Mapping[str, tuple[str, Mapping[str, Tool]]]
"""The groups of a broker's commands: what each is for, and its commands by name."""
