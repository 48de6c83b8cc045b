"""A feed that tells what a test says, as any store might: in pages, from the start again, or not at all."""

from __future__ import annotations

from redrive.core.errors import StoreUnavailable
from redrive.core.letters import Change, ChangePage, DeadLetter
from redrive.stores.sqlite import SqliteStore


class Telling:
    """core.store.Feed over a list of changes; `asked` has the position of each question."""

    def __init__(self) -> None:
        self.silent = False
        self.forgotten = 0
        self.asked: list[int] = []
        self._told: list[Change] = []

    def died(self, *letters: DeadLetter) -> None:
        self._told += [Change(letter.message.id, letter) for letter in letters]

    def left(self, *letters: DeadLetter) -> None:
        self._told += [Change(letter.message.id, None) for letter in letters]

    def forget(self) -> None:
        """From now on nobody is told what left before; who asks for it begins anew."""
        self.forgotten = len(self._told)
        gone = {change.id for change in self._told if change.letter is None}
        self._told = [change for change in self._told if change.id not in gone]
        self._told += [Change("padding", None)] * (self.forgotten - len(self._told))

    async def changes(self, queue: str, *, after: int, limit: int = 500) -> ChangePage:
        if self.silent:
            raise StoreUnavailable("the store does not answer")
        self.asked.append(after)
        reset = 0 < after < self.forgotten
        begin = 0 if reset else after
        told = self._told[begin : begin + limit]
        position = begin + len(told)
        return ChangePage(tuple(told), position, more=position < len(self._told), reset=reset)


class ToldStore(SqliteStore):
    """A store with a feed instead of an index of its own."""

    feed: Telling

    @property
    def index(self) -> Telling:  # type: ignore[override]
        return self.feed
