"""Dead letters from a broker's queues into the ledger: written first, acknowledged then.

What the ledger does not take now stays with this process and is tried again: see `kept`. Which letter each
becomes is said in `placement`. Whoever collects holds a lease, which is not kept here.
"""

from __future__ import annotations

from collections.abc import Sequence

from redrive.brokers.burial import Burial, Overtaken
from redrive.brokers.carried import CarriedStore
from redrive.brokers.kept import KeptParcels
from redrive.brokers.rounds import by_halves, go_round
from redrive.core.carrier import Carrier, Parcel
from redrive.core.store import Store

_PAGE = 250
_IDLE_S = 0.5
_COMPANY_S = 0.05
"""Letters that come one by one wait for others: a write costs as much for one as for many."""


class Collector:
    """Collects for one ledger, until it is told to stop."""

    def __init__(self, store: CarriedStore) -> None:
        self._store = store
        self._ledger, self._carrier = store.ledger, store.carrier
        self._collections: dict[str, _Collection] = {}

    async def step(self) -> float:
        """A page of each queue; how long to wait before the next."""
        await self._store.check_ledger()
        for collection in self._collections.values():
            collection.arrived = 0
        await go_round(self._carrier.dead_letter_queues(), self._collect)
        most = max((one.arrived for one in self._collections.values()), default=0)
        return 0.0 if most == _PAGE else _COMPANY_S if most else _IDLE_S

    async def stop(self) -> None:
        """Leave the queues to another collector."""
        collections, self._collections = self._collections, {}
        for collection in collections.values():
            await collection.let_go()
        for queue in self._carrier.dead_letter_queues():
            await self._carrier.stop(queue)

    async def _collect(self, queue: str) -> bool:
        if queue not in self._collections:
            self._collections[queue] = _Collection(self._ledger, self._carrier, queue)
        return await self._collections[queue].go_on()


class _Collection:
    """One dead-letter queue. `arrived` is how many letters came with the last step."""

    def __init__(self, ledger: Store, carrier: Carrier, queue: str) -> None:
        self._ledger, self._carrier, self._queue = ledger, carrier, queue
        self._kept = KeptParcels(carrier)
        self._burial = Burial(ledger, queue)
        self.arrived = 0

    async def go_on(self) -> bool:
        """Write what is kept, or a page of what has arrived; whether there was anything."""
        await self._kept.forget_lost()
        await self._kept.acknowledge()
        if not self._kept.unwritten:
            await self._begin()
        if not self._kept.unwritten:
            return False
        try:
            await by_halves(self._kept.unwritten, self._write, self._write_plainly)
        except Overtaken:
            await self._kept.let_go()
            raise
        await self._kept.acknowledge()
        return True

    async def let_go(self) -> None:
        await self._kept.let_go()

    async def _begin(self) -> None:
        self._kept.unwritten = await self._carrier.collect_dead(self._queue, _PAGE)
        self._burial = Burial(self._ledger, self._queue)
        self.arrived = len(self._kept.unwritten)

    async def _write(self, parcels: Sequence[Parcel]) -> None:
        await self._burial.write(parcels)
        self._kept.wrote(parcels)

    async def _write_plainly(self, parcel: Parcel, problem: Exception) -> None:
        await self._burial.write_plainly(parcel, problem)
        self._kept.wrote([parcel])
