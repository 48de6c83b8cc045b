"""Which letter each parcel of a batch is: known, new, a copy, or a message that was sent back and died again.

What Redrive gave its id is one message: told apart by id, generation and content, one that comes twice is one
letter. Any other may be equal to another message in everything: it becomes a letter of its own, a copy,
unless it comes again and stands among the names that whoever had it before left behind.
"""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from itertools import count

from msgspec import Struct, field

from redrive.brokers.letters import bury_of, content, copy_id, letter_of
from redrive.brokers.reports import Report
from redrive.core.carrier import Parcel
from redrive.core.letters import Account, DeadLetter, LetterKey
from redrive.core.lifecycle import State
from redrive.core.message import Message
from redrive.core.ports import Ledger

_OPEN = (State.WAITING, State.CLAIMED, State.DEAD)
_Known = dict[str, Account]


class LetterName(Struct, frozen=True, array_like=True):
    """A letter that is about to be written: its id, the id of its message, and the content."""

    letter: str
    message: str
    content: str


class Plan(Struct):
    """What is to be written of one queue that messages died in; `later` is placed again after that."""

    letters: list[tuple[Parcel, DeadLetter]] = field(default_factory=list)
    reports: list[Report] = field(default_factory=list)
    later: list[Parcel] = field(default_factory=list)


class Placement:
    """One try of one batch. `names` were left behind; `again` are the parcels, by `id`, that left them."""

    def __init__(self, ledger: Ledger, names: Sequence[LetterName], again: AbstractSet[int]) -> None:
        self._ledger = ledger
        self._names = names
        self._again = again
        self._matched: set[str] = set()
        self._taken: dict[str, tuple[str, int]] = {}
        self._refused: set[str] = set()
        self._numbers: dict[tuple[str, str, str], int] = {}

    async def plan(self, queue: str, parcels: Sequence[Parcel]) -> Plan:
        """Place the parcels that died in one queue."""
        ids = dict.fromkeys(parcel.message.id for parcel in parcels)
        ids |= dict.fromkeys(one.letter for one in self._names if one.message in ids)
        known = {one.message.id: one for one in await self._ledger.accounts(queue, list(ids))}
        plan = Plan()
        for parcel in parcels:
            place = self._place_own if parcel.own else self._place_foreign
            await place(parcel, content(parcel.message), known, plan)
        return plan

    def refuse(self, letter_id: str) -> None:
        """Another message had this id first."""
        self._refused.add(letter_id)
        del self._taken[letter_id]
        self._numbers.clear()

    def is_again(self, parcel: Parcel) -> bool:
        """Whether somebody, or an earlier try, had the parcel before."""
        return parcel.redelivered or id(parcel) in self._again

    @property
    def has_matched(self) -> bool:
        """Whether a name was found to be that of a parcel."""
        return bool(self._matched)

    def names(self) -> list[LetterName]:
        """The names that stand, but for those whose letter is written now."""
        return [one for one in self._names if one.letter not in self._taken]

    def open_names(self) -> list[LetterName]:
        """Those of which nothing has come so far."""
        return [one for one in self.names() if one.letter not in self._matched]

    async def _place_own(self, parcel: Parcel, digest: str, known: _Known, plan: Plan) -> None:
        for number in count():
            letter_id = copy_id(parcel.message, digest, number)
            if letter_id in self._taken:
                found, generation = self._taken[letter_id]
                if found != digest:
                    continue
                if generation < parcel.generation:
                    plan.later.append(parcel)
                return
            account = await self._account(parcel.message, letter_id) if number else known.get(letter_id)
            if account is None:
                if letter_id in self._refused:
                    continue
                self._take(parcel, letter_id, digest, number, plan)
                return
            if account.state not in _OPEN or (not number and content(account.message) != digest):
                continue
            if not _is_known(account, parcel):
                key = LetterKey(letter_id, parcel.generation)
                plan.reports.append(Report(key, bury_of(parcel), parcel.operation, parcel.actor))
            return

    async def _place_foreign(self, parcel: Parcel, digest: str, known: _Known, plan: Plan) -> None:
        if self.is_again(parcel) and self._match(parcel, digest, known):
            return
        message, number = parcel.message, 0
        if message.id in known or message.id in self._taken or message.id in self._refused:
            number = await self._next_number(message, digest)
        self._take(parcel, copy_id(message, digest, number), digest, number, plan)

    def _take(self, parcel: Parcel, letter_id: str, digest: str, number: int, plan: Plan) -> None:
        self._taken[letter_id] = digest, parcel.generation
        plan.letters.append((parcel, letter_of(parcel, letter_id, number)))

    def _match(self, parcel: Parcel, digest: str, known: _Known) -> bool:
        """Whether a name that nobody else was found under is that of this parcel, and its letter written."""
        for one in self._names:
            is_free = one.letter in known and one.letter not in self._matched
            if is_free and one.message == parcel.message.id and one.content == digest:
                self._matched.add(one.letter)
                return True
        return False

    async def _next_number(self, message: Message, digest: str) -> int:
        key = message.queue, message.id, digest
        last = self._numbers.get(key)
        found = await self._first_free(message, digest) if last is None else last + 1
        self._numbers[key] = found
        return found

    async def _first_free(self, message: Message, digest: str) -> int:
        """Found by doubling and halving: the thousandth copy costs twenty looks."""
        low, high = 0, 1
        while await self._account(message, copy_id(message, digest, high)):
            low, high = high, 2 * high
        while high - low > 1:
            middle = (low + high) // 2
            if await self._account(message, copy_id(message, digest, middle)):
                low = middle
            else:
                high = middle
        return high

    async def _account(self, message: Message, letter_id: str) -> Account | None:
        found = await self._ledger.accounts(message.queue, [letter_id])
        return found[0] if found else None


def _is_known(account: Account, parcel: Parcel) -> bool:
    """Whether the ledger knows this death, or a later one."""
    if account.progress.generation == parcel.generation:
        return account.state is State.DEAD
    return account.progress.generation > parcel.generation
