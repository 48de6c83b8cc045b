"""Bugs planted into the child process, and instants at which it kills itself.

A plant shows that the checks are good: with it they must fail. Each one names the text it changes and
refuses to run when that text is gone, so a plant cannot quietly become harmless. Those that reach into a
store's inside are in plants_sqlite.py and plants_redis.py, under the same names; here is what they share.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import count
from typing import Any

from redrive.core.errors import StoreUnavailable
from redrive.core.letters import LetterKey
from redrive.core.lifecycle import Move
from redrive.core.message import Delivery, Entry
from redrive.core.ports import Claimed
from redrive.core.store import Store
from redrive.core.verdict import Done, Settlement
from redrive.engine.attempts import Attempts
from redrive.engine.ruling import rule

_LATE_S = 0.5

Fire = Callable[[], None]


@dataclass(frozen=True, slots=True)
class Bugs:
    """The bugs of one store. `wrap_commit` fires before or after each of its durable writes."""

    store: type
    wrap_commit: Callable[[str, Fire], None]
    own: Sequence[Callable[[], None]]

    def plant(self, name: str) -> None:
        """Plant the bug of this name into this process."""
        shared = {
            "settle_before_handler": settle_before_handler,
            "answer_settle_late": self._answer_settle_late,
            "lose_settle_answers": self._lose_settle_answers,
            "redrive_deletes_first": self._redrive_deletes_first,
        }
        ({each.__name__: each for each in self.own} | shared)[name]()

    def die(self, point: str) -> None:
        """SIGKILL this process at a point written as `before:settle:2`; `after:commit:1:SIGSTOP` stops it.

        The verb is a method of the store, or `commit`; `put_record/note` counts only calls whose first
        argument is that. After a claim or reclaim, one that got nothing is not counted.
        """
        moment, verb, number, *others = point.split(":")
        signal_number = signal.Signals[others[0]] if others else signal.SIGKILL
        calls = count(1)

        def fire() -> None:
            if next(calls) == int(number):
                os.kill(os.getpid(), signal_number)

        if verb == "commit":
            self.wrap_commit(moment, fire)
        else:
            name, _, first = verb.partition("/")
            wrap(self.store, name, moment, fire, first)

    def _answer_settle_late(self) -> None:
        """No bug but a slow machine: a settle is answered well after its commit."""
        original = self.store.settle  # type: ignore[attr-defined]

        async def settle_late(self: Any, settlements: Sequence[Settlement]) -> AbstractSet[str]:
            refused: AbstractSet[str] = await original(self, settlements)
            await asyncio.sleep(_LATE_S)
            return refused

        replace_method(self.store, "settle", settle_late)

    def _lose_settle_answers(self) -> None:
        """No bug but a bad line: the answer to every other settle is lost after its commit."""
        original = self.store.settle  # type: ignore[attr-defined]
        calls = count()

        async def settle_unheard(self: Any, settlements: Sequence[Settlement]) -> AbstractSet[str]:
            refused: AbstractSet[str] = await original(self, settlements)
            if next(calls) % 2 == 0:
                raise StoreUnavailable("the answer was lost on its way")
            return refused

        replace_method(self.store, "settle", settle_unheard)

    def _redrive_deletes_first(self) -> None:
        """A re-drive takes the letters away, then submits them anew."""

        async def redrive(
            self: Store, queue: str, letters: Sequence[LetterKey], *, actor: str, operation: str | None = None
        ) -> AbstractSet[str]:
            accounts = await self.accounts(queue, [letter.id for letter in letters])
            moved = await self.remove(queue, letters, Move.DISCARD, actor=actor, operation=operation)
            due_at = self.now()
            again = [Entry(one.message, due_at, one.progress.expires_at) for one in accounts]
            await self.append([[entry] for entry in again if entry.message.id in moved])
            return moved

        replace_method(self.store, "redrive", redrive)


def of_store(url: str) -> Bugs:
    """The bugs of the store that an address names; only that one's inside is imported."""
    if url.startswith("sqlite"):
        from tests.faults.plants_sqlite import BUGS
    else:
        from tests.faults.plants_redis import BUGS
    return BUGS


def wrap(owner: type, verb: str, moment: str, fire: Fire, first: str = "") -> None:
    """Fire before or after each call of an asynchronous method, or each whose first argument is `first`."""
    original = getattr(owner, verb)

    async def wrapped(self: Any, *arguments: Any, **named: Any) -> Any:
        meant = not first or arguments[:1] == (first,)
        if moment == "before" and meant:
            fire()
        result = await original(self, *arguments, **named)
        if moment == "after" and meant and not _is_empty(result):
            fire()
        return result

    replace_method(owner, verb, wrapped)


def replace_method(owner: type, name: str, value: object) -> None:
    """Put another method in the place of one that is there."""
    assert hasattr(owner, name), f"{owner.__name__} has no {name} any more, the plant is void"
    setattr(owner, name, value)


def settle_before_handler() -> None:
    """The message is completed, then the handler runs."""

    async def attempt(self: Any, delivery: Delivery) -> None:
        self._settler.add(rule(delivery, Done(), self._served.policy, self._source.now()))
        await self._executor.run(self._served, delivery)

    replace_method(Attempts, "_attempt", attempt)


def _is_empty(result: object) -> bool:
    return result == [] or (isinstance(result, Claimed) and not result.deliveries)
