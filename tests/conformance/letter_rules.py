"""The machine's rules for dead letters: re-drive, discard, replace, archive, and back from the archive.

Letters are named by a generation that is right, wrong or left out. What was archived is kept here for good,
so that old archives of letters that have lived on are tried again, too.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from redrive.core.letters import DeadLetter, LetterKey
from redrive.core.lifecycle import Move, State
from tests.conformance.backends import Bench
from tests.conformance.makers import letters
from tests.conformance.time_rules import TimeRules
from tests.conformance.worker_rules import picks, queues

REMOVALS = (Move.DISCARD, Move.REPLACE, Move.ARCHIVE, Move.ARCHIVE)
NAMES = ("any", "right", "right", "wrong")


def removal(seed: bytes) -> tuple[Move, str]:
    """A removal and how it names its letters, all as likely: hypothesis favours the first of a list."""
    first, second = blake2b(seed, digest_size=2).digest()
    return REMOVALS[first % len(REMOVALS)], NAMES[second % len(NAMES)]


counts, strangers = st.integers(1, 6), st.integers(0, 10_000)
operations = st.sampled_from([None, "op-1", "op-2"])
removals = st.binary(min_size=2, max_size=2).map(removal)


class LetterRules(TimeRules):
    """What people do with dead letters."""

    def __init__(self, make_bench: Callable[[], Bench]) -> None:
        super().__init__(make_bench)
        self._archive: list[DeadLetter] = []

    def _open(self) -> None:
        super()._open()
        self.remove("orders", count=1, stranger=0, how=(Move.DISCARD, "right"), operation="op-1")
        self.undiscard("orders", count=1, operation="op-1")
        for move in (Move.REPLACE, Move.ARCHIVE):
            self.remove("orders", count=1, stranger=0, how=(move, "right"), operation="op-1")
        self.restore([0])

    @rule(queue=queues, count=counts, stranger=strangers, how=removals, operation=operations)
    def redrive(
        self, queue: str, count: int, stranger: int, how: tuple[Move, str], operation: str | None
    ) -> None:
        named = self._name(queue, count, stranger, how[1])
        moved = self._run(self._store.redrive(queue, named, actor="ann", operation=operation))
        items = self._model.move(queue, named, State.DEAD)
        assert moved == {item.entry.message.id for item in items}
        self.seen["redrive"] += len(items)
        for item in items:
            self._model.redrive(item, operation)

    @rule(queue=queues, count=counts, stranger=strangers, how=removals, operation=operations)
    def remove(
        self, queue: str, count: int, stranger: int, how: tuple[Move, str], operation: str | None
    ) -> None:
        move, name = how
        named = self._name(queue, count, stranger, name)
        before = self._run(letters(self._store, queue))
        moved = self._run(self._store.remove(queue, named, move, actor="ann", operation=operation))
        items = self._model.move(queue, named, State.DEAD)
        assert moved == {item.entry.message.id for item in items}
        self.seen[move] += len(items)
        self._model.count(operation, moved=len(items))
        for item in items:
            self._model.remove(item, move)
        if move is Move.ARCHIVE:
            self._archive += [letter for letter in before if letter.message.id in moved]

    @rule(queue=queues, count=counts, operation=operations)
    def undiscard(self, queue: str, count: int, operation: str | None) -> None:
        discarded = [
            item for item in self._model.of(queue, State.REMOVED) if item.removed_by is Move.DISCARD
        ][:count]
        named = [LetterKey(item.entry.message.id, item.generation) for item in discarded]
        moved = self._run(self._store.undiscard(queue, named, operation=operation))
        assert moved == {item.entry.message.id for item in discarded}
        self.seen["undiscard"] += len(discarded)
        self._model.count(operation, moved=len(discarded))
        for item in discarded:
            item.state, item.removed_by = State.DEAD, None

    def _name(self, queue: str, count: int, stranger: int, name: str) -> list[LetterKey]:
        """Some letters of a queue, and one message that perhaps is none."""
        dead = [item.entry.message.id for item in self._model.of(queue, State.DEAD)]
        ids = [*dead[:count], self._stranger(stranger)]
        if name == "any":
            return [LetterKey(one) for one in ids]
        wrong = name == "wrong"
        return [LetterKey(one, self._model.items[one].generation + wrong) for one in ids]

    def _stranger(self, index: int) -> str:
        known = list(self._model.items)
        return known[index % len(known)]

    @precondition(lambda self: self._archive)
    @rule(indexes=picks)
    def restore(self, indexes: list[int]) -> None:
        """Take letters back from the archive; what lives on, or died again since, is left alone."""
        chosen = {index % len(self._archive) for index in indexes}
        fitting = [self._archive[index] for index in sorted(chosen) if self._fits(self._archive[index])]
        taken = self._run(self._store.bury(fitting))
        restored = []
        for letter in fitting:
            if self._model.restores(letter):
                self._model.restore(letter)
                restored.append(letter)
        assert taken == {letter.message.id for letter in restored}
        self.seen["restore"] += len(restored)
        for letter in restored:
            assert letter in self._run(letters(self._store, letter.message.queue))

    def _fits(self, letter: DeadLetter) -> bool:
        """Whether whatever it shared is still here: the machine tells nothing of children without that."""
        parent = letter.message.parent
        return parent is None or self._model.keeps_body(parent)
