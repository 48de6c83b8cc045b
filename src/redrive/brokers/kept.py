"""What a queue of a broker handed over, until the store has it and the broker is told so.

What a store does not take now is kept and tried again. It is not given back meanwhile: a broker counts how
often a message comes back, and drops one that comes too often. Known weakness: a broker takes back, and
counts, what it has no answer for within a time of its own, in RabbitMQ 30 minutes.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from redrive.core.carrier import Carrier, Parcel, ParcelStanding
from redrive.core.errors import StoreError


class KeptParcels:
    """Of one queue: what is `unwritten`, and what is written and not acknowledged."""

    def __init__(self, carrier: Carrier) -> None:
        self._carrier = carrier
        self.unwritten: list[Parcel] = []
        self._written: list[Parcel] = []

    def wrote(self, parcels: Sequence[Parcel]) -> None:
        """The store has these."""
        self.drop(parcels)
        self._written += parcels

    def drop(self, parcels: Sequence[Parcel]) -> None:
        """These are told about."""
        done = {id(one) for one in parcels}
        self.unwritten = [one for one in self.unwritten if id(one) not in done]

    async def acknowledge(self) -> None:
        """Tell the broker what is written. What a lost connection had waits to come again."""
        standings = [(one, self._carrier.standing(one)) for one in self._written]
        self._written = [one for one, standing in standings if standing is not ParcelStanding.LOST]
        held = [one for one, standing in standings if standing is ParcelStanding.HELD]
        if held:
            await self._carrier.acknowledge(held)
            self._written = [one for one, standing in standings if standing is ParcelStanding.WAITING]

    async def forget_lost(self) -> None:
        """Leave to the broker what it has again: should that come here, it is a new parcel."""
        lost = [one for one in self.unwritten if self._carrier.standing(one) is not ParcelStanding.HELD]
        if lost:
            self.drop(lost)
            await self._carrier.give_back(lost)

    async def let_go(self) -> None:
        """Leave to others what is not written."""
        unwritten, self.unwritten = self.unwritten, []
        with suppress(StoreError):
            await self._carrier.give_back(unwritten)
        with suppress(StoreError):
            await self.acknowledge()
