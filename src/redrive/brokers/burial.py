"""A batch of a dead-letter queue on its way into the ledger, however often that is tried.

What cannot be told apart by its id alone is named in a record of the queue before its letter is written, and
the names are cleared before anything is acknowledged. So the broker still has whatever is named there: one of
those that comes again is the same message. Each change of the record follows the one that was read: whoever
finds another was overtaken by another collector, and acknowledges nothing. A message is never less than one
letter; it is two when its collector dies after the names are cleared and before the broker has heard of it.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

import msgspec

from redrive.brokers.letters import content, plainer_letters
from redrive.brokers.placement import LetterName, Placement
from redrive.brokers.reports import Reports
from redrive.core.carrier import Parcel
from redrive.core.errors import StoreError, StoreUnavailable, VersionConflict
from redrive.core.letters import DeadLetter
from redrive.core.store import Store

COLLECTED_RECORDS = "collected"
_PASSES = 10

_Letters = Sequence[tuple[Parcel, DeadLetter]]


class Overtaken(StoreUnavailable):
    """Another collector has the queue."""


class Burial:
    """One batch; the same object at each try, which knows what an earlier one may have written."""

    def __init__(self, ledger: Store, queue: str) -> None:
        self._ledger = ledger
        self._reports = Reports(ledger)
        self._queue = queue
        self._mark = os.urandom(8).hex()
        self._version = 0
        self._named: dict[int, Parcel] = {}
        self._names: list[LetterName] = []

    async def write(self, parcels: Sequence[Parcel]) -> None:
        """Return when the ledger has all of them; after an error all may be tried again."""
        placement = Placement(self._ledger, await self._read_names(), set(self._named))
        await self._place_all(placement, parcels)
        if self._names or placement.has_matched:
            # What was handed out before comes again first: as long as it does, the other names may come.
            goes_on = all(one.own or placement.is_again(one) for one in parcels)
            await self._clear(placement.open_names() if goes_on else [])

    async def write_plainly(self, parcel: Parcel, problem: Exception) -> None:
        """Write one that cannot be stored as it is: its body, and why."""
        last = problem
        for letter in plainer_letters(parcel, problem, self._ledger.now()):
            try:
                if await self._ledger.bury([letter]):
                    return
            except StoreUnavailable:
                raise
            except Exception as error:  # noqa: BLE001 - the next one is plainer
                last = error
        raise StoreError(f"a dead letter of {self._queue} cannot be stored: {last}") from last

    async def _place_all(self, placement: Placement, parcels: Sequence[Parcel]) -> None:
        rest = parcels
        for _ in range(_PASSES):
            rest = await self._pass(placement, rest)
            if not rest:
                return
        raise StoreError(f"{len(rest)} dead letters of {self._queue} find no id that is free")

    async def _pass(self, placement: Placement, parcels: Sequence[Parcel]) -> list[Parcel]:
        """Write what can be; those whose place is another's after all."""
        by_origin: dict[str, list[Parcel]] = {}
        for parcel in parcels:
            by_origin.setdefault(parcel.message.queue, []).append(parcel)
        plans = {origin: await placement.plan(origin, batch) for origin, batch in by_origin.items()}
        await self._name(placement, [one for plan in plans.values() for one in plan.letters])
        rest: list[Parcel] = []
        for origin, plan in plans.items():
            rest += await self._bury(placement, plan.letters)
            await self._reports.tell(origin, plan.reports)
            rest += plan.later
        return rest

    async def _bury(self, placement: Placement, letters: _Letters) -> list[Parcel]:
        """Those whose id another message has, in this queue or in any."""
        if not letters:
            return []
        buried = await self._ledger.bury([letter for _, letter in letters])
        refused = [(parcel, letter) for parcel, letter in letters if letter.message.id not in buried]
        for _, letter in refused:
            placement.refuse(letter.message.id)
        return [parcel for parcel, _ in refused]

    async def _name(self, placement: Placement, letters: _Letters) -> None:
        foreign = [(parcel, letter) for parcel, letter in letters if not parcel.own]
        if not foreign:
            return
        self._names += [
            LetterName(letter.message.id, parcel.message.id, content(parcel.message))
            for parcel, letter in foreign
        ]
        self._named |= {id(parcel): parcel for parcel, _ in foreign}
        try:
            await self._put([*placement.names(), *self._names])
        except VersionConflict as error:
            raise StoreUnavailable(f"another process collects {self._queue} at this moment") from error

    async def _clear(self, left: Sequence[LetterName]) -> None:
        try:
            await self._put(left)
        except VersionConflict as error:
            raise Overtaken(f"another process has collected {self._queue} meanwhile") from error
        self._names = []

    async def _read_names(self) -> list[LetterName]:
        """What stands in the record. A put of ours that failed may be there, or may have cleared it."""
        record = await self._ledger.get_record(COLLECTED_RECORDS, self._queue)
        self._version = 0 if record is None else record.version
        document = {} if record is None else record.document
        names = msgspec.convert(document.get("letters", []), list[LetterName])
        if document.get("by") != self._mark:
            self._named, self._names = {}, []
        return list(dict.fromkeys([*names, *self._names]))

    async def _put(self, names: Sequence[LetterName]) -> None:
        document = {"by": self._mark, "letters": msgspec.to_builtins(list(dict.fromkeys(names)))}
        self._version = await self._ledger.put_record(
            COLLECTED_RECORDS, self._queue, document, expected=self._version
        )
