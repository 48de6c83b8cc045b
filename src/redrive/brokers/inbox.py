"""Inbox mode: what a broker hands over is appended to the ledger, acknowledged, and run from there.

A queue in this mode has every guarantee of a store: turns for tenants, leases, chosen delays. What the ledger
does not take now stays with this process and is tried again: see `kept`; what it can never take is parked. A
crash between append and acknowledgement appends again: what Redrive submitted is known by its id, anything
else may run twice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from uuid import UUID, uuid4, uuid5

from msgspec.structs import replace

from redrive.brokers.carried import CarriedStore
from redrive.brokers.kept import KeptParcels
from redrive.brokers.rounds import by_halves, go_round
from redrive.core.carrier import BrokerDeath, Parcel, Parking
from redrive.core.errors import StoreError
from redrive.core.failure import Failure, Kind
from redrive.core.fingerprint import fingerprint
from redrive.core.message import Entry, content_digest, expiry
from redrive.core.ports import Status, batches_of
from redrive.core.verdict import Reason

_PAGE = 500
_IDLE_S = 0.05
_OWN_IDS = UUID("5a0c0c4e-6f0f-5d8c-9f57-2d5f0e6b7a31")


class InboxIntake:
    """The queues of one broker that run from the ledger; `ttl_s` is how long a queue's messages may live."""

    def __init__(self, store: CarriedStore, ttl_s: Callable[[str], float]) -> None:
        self._store = store
        self._ledger, self._carrier = store.ledger, store.carrier
        self._kept: dict[str, KeptParcels] = {}
        self._ttl_s = ttl_s

    async def step(self) -> float:
        """A page of each queue; how long to wait before the next."""
        await self._store.check_ledger()
        return 0.0 if await go_round(sorted(self._store.inbox), self._take_in) else _IDLE_S

    async def _take_in(self, queue: str) -> bool:
        kept = self._kept.setdefault(queue, KeptParcels(self._carrier))
        await kept.forget_lost()
        await kept.acknowledge()
        if not kept.unwritten:
            arrived = await self._carrier.collect(queue, _PAGE)
            kept.unwritten = [one if one.own else _renamed(one) for one in arrived]
        if not kept.unwritten:
            return False
        await by_halves(kept.unwritten, partial(self._append, kept), partial(self._park, kept))
        await kept.acknowledge()
        return True

    async def _append(self, kept: KeptParcels, parcels: Sequence[Parcel]) -> None:
        """An id that another message has is no reason to lose one: it comes in under an id of its own."""
        for batch in batches_of([self._entry(parcel) for parcel in parcels]):
            refused = await self._refused(batch)
            if refused and await self._refused([_of_its_own(entry) for entry in refused]):
                raise StoreError(f"{len(refused)} messages have an id that another message has")
        kept.wrote(parcels)

    async def _refused(self, entries: Sequence[Entry]) -> list[Entry]:
        receipts = await self._ledger.append([[entry] for entry in entries])
        answers = zip(entries, receipts, strict=True)
        return [entry for entry, (receipt,) in answers if receipt.status is Status.CONFLICT]

    def _entry(self, parcel: Parcel) -> Entry:
        now, ttl_s = self._ledger.now(), self._ttl_s(parcel.message.queue)
        return Entry(replace(parcel.message, ttl_s=ttl_s), now, expiry(now, now, ttl_s))

    async def _park(self, kept: KeptParcels, parcel: Parcel, problem: Exception) -> None:
        """A message that the ledger can never take is a dead letter at the broker."""
        now, reason = self._ledger.now(), f"it cannot be stored: {type(problem).__name__}: {problem}"
        mark = fingerprint(type(problem).__name__, None, reason, "")
        failure = Failure(now, parcel.attempts + 1, Kind.PERMANENT, reason, fingerprint=mark)
        await self._carrier.park([Parking(parcel, BrokerDeath(Reason.POISON, now, (failure,)))])
        kept.drop([parcel])


def _renamed(parcel: Parcel) -> Parcel:
    return replace(parcel, message=replace(parcel.message, id=str(uuid4())))


def _of_its_own(entry: Entry) -> Entry:
    """The same at each try: an append that failed may have been written."""
    message = entry.message
    name = f"{message.queue}/{message.tenant}/{message.id}/{content_digest(message).hex()}"
    return replace(entry, message=replace(message, id=str(uuid5(_OWN_IDS, name))))
