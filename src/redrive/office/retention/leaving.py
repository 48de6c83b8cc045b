"""Which letters leave a queue: those that died too long ago, and the oldest of those that are too many.

For number no letter leaves that died within a day: that would be during the incident. The letter of one
recipient of many leaves with what they share; where that is damaged in the store, it stays.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from redrive.core.letters import DeadLetter
from redrive.core.ports import Store
from redrive.core.settings import RetentionSettings

DAY_MS = 86_400_000
_PAGE = 100


@dataclass(slots=True)
class Leaving:
    """A page of a queue's letters that leave, by cause; `shared` ones would, and lack what they share."""

    aged: list[DeadLetter] = field(default_factory=list)
    excess: list[DeadLetter] = field(default_factory=list)
    shared: int = 0

    @property
    def letters(self) -> list[DeadLetter]:
        return self.aged + self.excess

    @property
    def looked_at(self) -> int:
        return len(self.aged) + len(self.excess) + self.shared


@dataclass(frozen=True, slots=True)
class RetentionLimits:
    """What may leave at an instant, given how many letters the queue has too many."""

    aged_before_at: int
    excess: int
    calm_before_at: int

    @classmethod
    def at(cls, settings: RetentionSettings, leave_at: int, dead: int) -> RetentionLimits:
        """The limits of a queue with so many dead letters."""
        aged = -1 if settings.keep_s is None else leave_at - round(settings.keep_s * 1000)
        excess = 0 if settings.keep is None else max(0, dead - settings.keep)
        return cls(aged, excess, leave_at - DAY_MS)

    def for_age(self, letter: DeadLetter) -> bool:
        return letter.died_at <= self.aged_before_at

    def for_number(self, letter: DeadLetter, place: int) -> bool:
        return place < self.excess and letter.died_at <= self.calm_before_at


def is_whole(letter: DeadLetter) -> bool:
    """Whether a letter has all that it needs to come back: its own body, and what it shares."""
    return letter.message.parent is None or letter.shared is not None


async def leaving(store: Store, queue: str, limits: RetentionLimits) -> AsyncIterator[Leaving]:
    """What leaves, oldest first, in pages. Letters may be removed meanwhile."""
    place, cursor = 0, None
    while True:
        page = await store.letters(queue, after=cursor, limit=_PAGE)
        leaves = Leaving()
        for letter in page.letters:
            age = limits.for_age(letter)
            if not age and not limits.for_number(letter, place):
                break
            place += 1
            if is_whole(letter):
                (leaves.aged if age else leaves.excess).append(letter)
            else:
                leaves.shared += 1
        yield leaves
        cursor = page.cursor
        if cursor is None or leaves.looked_at < len(page.letters):
            return
