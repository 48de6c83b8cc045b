"""The invariants, judged from three sides: what was accepted, what was handed over, what is stored.

The handlers do what their plan says, so the number of hand-overs without a fault is known beforehand; each
kill allows one more for every message that was in flight then, and for no other. What is told here as a
violation is never explained away by the store's own counters. Only where a store states that it may forget
the last moments (class B) is what was touched in them judged by its end alone.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from redrive.core.failure import Kind
from redrive.core.letters import Account, DeadLetter
from redrive.core.lifecycle import State
from redrive.core.ports import PAGE
from redrive.core.store import QueueCounts, Store
from redrive.core.verdict import CRASH_LIMIT, Reason
from tests.faults.handlers import ATTEMPTS
from tests.faults.ledger import ACCEPTED, HANDED, Line, Plan, read_lines

Key = tuple[str, int]
"""A message's id and generation."""


def expected_handovers(plan: Plan, generation: int) -> int:
    """How often a message is handed over in one generation when nothing goes wrong."""
    return 1 if generation < plan.permanent else min(plan.fails + 1, ATTEMPTS)


def expected_state(plan: Plan, generation: int) -> State:
    """Where a message comes to its end in one generation."""
    fails = generation < plan.permanent or plan.fails >= ATTEMPTS
    return State.DEAD if fails else State.DONE


@dataclass
class Evidence:
    """Everything the invariants are judged by. `held`: what was in flight at each kill, `noted_s`: when that
    was looked at.

    `outages`: the store was made unreachable, so workers may tell of it. `fresh`: the ids that a store of
    class B may have forgotten, or whose last moves it may have. `removable`: those that people may remove.
    """

    outages: bool = False
    fresh: set[str] = field(default_factory=set)
    removable: set[str] = field(default_factory=set)
    held: list[frozenset[Key]] = field(default_factory=list)
    noted_s: list[float] = field(default_factory=list)
    accepted: set[str] = field(default_factory=set)
    plans: dict[str, Plan] = field(default_factory=dict)
    lines: dict[Key, list[Line]] = field(default_factory=dict)
    troubles: list[str] = field(default_factory=list)
    bugs: list[str] = field(default_factory=list)
    accounts: dict[str, Account] = field(default_factory=dict)
    letters: list[DeadLetter] = field(default_factory=list)
    queues: list[QueueCounts] = field(default_factory=list)

    async def collect(self, store: Store, folder: Path) -> None:
        """Read both ledgers and ask the store about every id in them."""
        asked = read_lines(folder / ACCEPTED)
        self.accepted = {line.id for line in asked if line.what == "accepted"}
        self.plans = {line.id: line.plan for line in asked if line.plan is not None}
        self._hold_unanswered(asked)
        lines: dict[Key, list[Line]] = defaultdict(list)
        handed = read_lines(folder / HANDED)
        for line in handed:
            if line.id:
                lines[line.id, line.generation].append(line)
        self.lines = dict(lines)
        self.troubles = [line.note for line in handed if line.what == "trouble"]
        self.bugs = [line.note for line in handed if line.what == "bug"]
        self.accounts = await read_accounts(store, self.plans.keys() | {key[0] for key in lines})
        self.letters = await _all_letters(store)
        self.queues = await store.queues()

    def _hold_unanswered(self, lines: list[Line]) -> None:
        """What was handed in and not answered at a kill had no id that could be looked at: it may be held."""
        asked_s = {line.id: line.at_s for line in lines if line.what == "asked"}
        for index, noted_s in enumerate(self.noted_s):
            self.held[index] |= {
                (line.id, 0)
                for line in lines
                if line.what == "accepted"
                and line.id != line.note
                and asked_s.get(line.note, noted_s) < noted_s <= line.at_s
            }

    def violations(self) -> list[str]:
        """Every broken invariant, by its number; an empty list is what a good system gives."""
        return [
            *self._lost(),
            *self._counted_wrongly(),
            *self._wrong_ends(),
            *self._duplicates(),
            *self._settled_twice(),
            *self._settled_stale(),
            *self._unbounded(),
            *(f"a loop of the worker failed: {bug}" for bug in self.bugs),
            *(f"trouble reached the worker: {trouble}" for trouble in self.troubles if not self.outages),
        ]

    def handovers(self, key: Key) -> int:
        return len(self._of(key, "begin"))

    @property
    def repeated(self) -> int:
        """How many hand-overs there were beyond those that the plans ask for."""
        return sum(
            max(0, self.handovers(key) - expected_handovers(self.plans[key[0]], key[1])) for key in self.lines
        )

    def _lost(self) -> Iterator[str]:
        for message_id in self.accepted - self.accounts.keys() - self.fresh:
            yield f"lost: {message_id} was accepted and the store does not know it"
        for message_id, generation in self.lines:
            if message_id not in self.accounts.keys() | self.fresh:
                yield f"state: {message_id} of generation {generation} was handed over and is not stored"

    def _counted_wrongly(self) -> Iterator[str]:
        """Each id is in exactly one state, and the lanes' counters agree; one letter an id."""
        states = Counter(account.state for account in self.accounts.values())
        if sum(each.published for each in self.queues) != states[State.DONE]:
            yield f"state: the lanes count other than {states[State.DONE]} done: {self.queues}"
        if sum(each.dlq for each in self.queues) != states[State.DEAD]:
            yield f"state: the lanes count other than {states[State.DEAD]} dead: {self.queues}"
        ids = Counter(letter.message.id for letter in self.letters)
        dead = {key for key, account in self.accounts.items() if account.state is State.DEAD}
        if ids.keys() != dead:
            yield f"state: letters and dead messages differ: {ids.keys() ^ dead}"
        for message_id, count in ids.items():
            if count > 1:
                yield f"doubled: {message_id} has {count} live dead letters"

    def _wrong_ends(self) -> Iterator[str]:
        for message_id, account in self.accounts.items():
            state, generation = account.state, account.progress.generation
            ends = self._of((message_id, generation), "end")
            if state is State.REMOVED and message_id in self.removable:
                yield from self._wrongly_removed((message_id, generation))
            elif state not in (State.DONE, State.DEAD):
                yield f"state: {message_id} never came to its end: {account.progress}"
            elif state is State.DONE and not any(line.note == "ok" for line in ends):
                yield f"undelivered: {message_id} is done and no hand-over of it ended well"
            elif account.reason is Reason.WORKER_LOST and state is State.DEAD:
                yield from self._wrongly_lost(account)
            elif state is not expected_state(self.plans[message_id], generation):
                yield f"ended: {message_id} is {state} against its plan {self.plans[message_id]}"

    def _wrongly_removed(self, key: Key) -> Iterator[str]:
        """A letter is brought back or taken away, never both."""
        died = any(line.what == "buried" for line in self.lines.get(key, ()))
        if self.lines.get(key) and not died:
            yield f"ended: {key} was handed over and removed"

    def _wrongly_lost(self, account: Account) -> Iterator[str]:
        key = (account.message.id, account.progress.generation)
        if self._kills(key) < CRASH_LIMIT:
            yield f"attempts: {key} was buried as lost after {self._kills(key)} kills, not {CRASH_LIMIT}"

    def _duplicates(self) -> Iterator[str]:
        for key in self._lasting():
            if key[0] not in self.plans:
                continue
            allowed = expected_handovers(self.plans[key[0]], key[1]) + self._kills(key)
            if self.handovers(key) > allowed:
                yield f"repeated: {key} was handed over {self.handovers(key)} times, {allowed} are explained"

    def _settled_twice(self) -> Iterator[str]:
        """Only one holder may bring a generation to its end."""
        for key in self._lasting():
            ends = self._of(key, "completed") + self._of(key, "buried")
            if len(ends) > 1:
                yield f"ended: {key} came to its end {len(ends)} times: {[line.what for line in ends]}"

    def _settled_stale(self) -> Iterator[str]:
        """What another has claimed since is not the old holder's to complete."""
        for key in self._lasting():
            holder = None
            for line in sorted(self.lines[key], key=lambda line: line.at_s):
                if line.what == "claimed":
                    holder = line.pid
                elif line.what == "completed" and holder not in (None, line.pid):
                    yield f"stolen: {key} was completed by {line.pid} while {holder} held it"

    def _unbounded(self) -> Iterator[str]:
        """Attempts rise by one, stand still only across a kill, and never fall."""
        for key in self._lasting():
            attempts = [line.attempt for line in self._of(key, "begin")]
            steps = [after - before for before, after in pairwise(attempts)]
            if any(not 1 <= attempt <= ATTEMPTS for attempt in attempts):
                yield f"attempts: {key} was handed over as attempts {attempts}, 1 to {ATTEMPTS} are allowed"
            if any(step not in (0, 1) for step in steps) or steps.count(0) > self._kills(key):
                yield f"attempts: {key} counted its attempts as {attempts} with {self._kills(key)} kills"
        for message_id, account in self.accounts.items():
            if message_id in self.fresh:
                continue
            lost = sum(failure.kind is Kind.LOST for failure in account.failures)
            kills = sum(self._kills((message_id, each)) for each in range(account.progress.generation + 1))
            if account.progress.crashes > CRASH_LIMIT or lost > kills:
                yield f"attempts: {message_id} lost {lost} after {kills} kills, {account.progress}"

    def _lasting(self) -> list[Key]:
        return [key for key in self.lines if key[0] not in self.fresh]

    def _kills(self, key: Key) -> int:
        return sum(key in held for held in self.held)

    def _of(self, key: Key, what: str) -> list[Line]:
        return [line for line in self.lines.get(key, ()) if line.what == what]


async def read_accounts(store: Store, ids: Iterable[str]) -> dict[str, Account]:
    """What the store knows of these ids, of whichever queue they are."""
    asked = list(ids)
    found: dict[str, Account] = {}
    for queue in await store.queue_names():
        for start in range(0, len(asked), PAGE):
            page = await store.accounts(queue, asked[start : start + PAGE])
            found |= {account.message.id: account for account in page}
    return found


async def _all_letters(store: Store) -> list[DeadLetter]:
    found: list[DeadLetter] = []
    cursor = None
    while True:
        page = await store.letters(None, after=cursor)
        found += page.letters
        cursor = page.cursor
        if cursor is None:
            return found
