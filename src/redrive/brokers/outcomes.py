"""What a broker is told of attempts that ended: acknowledged, brought back later, parked, given back.

Whatever the ledger has to know is written there first: should the broker not be told, it is said again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import assert_never

from redrive.brokers.notes import Notes
from redrive.brokers.reports import Report, Reports
from redrive.core.carrier import BrokerDeath, Carrier, Parcel, Parking, Retry
from redrive.core.failure import Failure
from redrive.core.letters import LetterKey
from redrive.core.store import Store
from redrive.core.verdict import Bury, Complete, HoldLane, Release, RetryAt, Settlement, Verdict

FAR_MS = 10 * 365 * 86_400_000
_SOON_MS = 1_000

ReadySettlement = tuple[Settlement, Parcel]
_Tell = Callable[[Sequence[ReadySettlement]], Awaitable[None]]


class Outcomes:
    """Tells one broker what became of messages of one queue."""

    def __init__(self, queue: str, carrier: Carrier, ledger: Store) -> None:
        self._queue = queue
        self._carrier = carrier
        self._ledger = ledger
        self._notes = Notes(ledger)
        self._reports = Reports(ledger)

    def sorted(self, ready: Sequence[ReadySettlement]) -> list[tuple[_Tell, list[ReadySettlement]]]:
        """What is told in one go, and how."""
        completed, retried, buried, returned = (list[ReadySettlement]() for _ in range(4))
        for settlement, parcel in ready:
            match settlement.verdict:
                case Complete():
                    batch = completed
                case RetryAt():
                    batch = retried
                case Bury():
                    batch = buried
                case Release() | HoldLane():
                    batch = returned
                case never:
                    assert_never(never)
            batch.append((settlement, parcel))
        ways: tuple[tuple[_Tell, list[ReadySettlement]], ...] = (
            (self._complete, completed),
            (self._retry, retried),
            (self._bury, buried),
            (self._give_back, returned),
        )
        return [(tell, batch) for tell, batch in ways if batch]

    async def _complete(self, batch: Sequence[ReadySettlement]) -> None:
        redriven = [_report(one.verdict, parcel) for one, parcel in batch if parcel.generation]
        if redriven:
            await self._reports.tell(self._queue, redriven)
        await self._carrier.acknowledge([parcel for _, parcel in batch])

    async def _retry(self, batch: Sequence[ReadySettlement]) -> None:
        """The failure is written down before the broker is told."""
        now, reports, retries = self._ledger.now(), [], []
        notes = []
        for one, parcel in batch:
            verdict = one.verdict
            assert isinstance(verdict, RetryAt)  # noqa: S101 - sorted by `sorted`
            if parcel.generation:
                reports.append(_report(RetryAt(now + FAR_MS, verdict.failure), parcel))
            else:
                notes.append(self._notes.add_failure(parcel.message, 0, verdict.failure))
            retries.append(Retry(parcel, max(0, verdict.due_at - now) / 1000))
        await self._reports.tell(self._queue, reports)
        await asyncio.gather(*notes)
        await self._carrier.retry(retries)

    async def _bury(self, batch: Sequence[ReadySettlement]) -> None:
        """Parked with all its failures; whoever collects it writes the letter."""
        now, parkings = self._ledger.now(), []
        earlier = await self._earlier([parcel for _, parcel in batch])
        for one, parcel in batch:
            verdict = one.verdict
            assert isinstance(verdict, Bury)  # noqa: S101 - sorted by `sorted`
            before = () if parcel.generation else earlier.get(parcel.message.id, ())
            parkings.append(Parking(parcel, BrokerDeath(verdict.reason, now, (*before, verdict.failure))))
        await self._carrier.park(parkings)

    async def _earlier(self, parcels: Sequence[Parcel]) -> dict[str, tuple[Failure, ...]]:
        """What was written down of earlier tries, by the message's id."""
        messages = {one.message.id: one.message for one in parcels if not (one.fresh or one.generation)}
        found = await asyncio.gather(*(self._notes.failures(one, 0) for one in messages.values()))
        return dict(zip(messages, found, strict=True))

    async def _give_back(self, batch: Sequence[ReadySettlement]) -> None:
        now, at_once, later = self._ledger.now(), [], []
        for one, parcel in batch:
            verdict = one.verdict
            due_at = verdict.probe_at if isinstance(verdict, HoldLane) else now
            due_at = verdict.due_at if isinstance(verdict, Release) else due_at
            if due_at - now < _SOON_MS:
                at_once.append(parcel)
            else:
                later.append(Retry(parcel, (due_at - now) / 1000, counted=False))
        if at_once:
            await self._notes.returned([parcel.message.id for parcel in at_once])
            await self._carrier.give_back(at_once)
        if later:
            await self._carrier.retry(later)


def _report(verdict: Verdict, parcel: Parcel) -> Report:
    key = LetterKey(parcel.message.id, parcel.generation)
    return Report(key, verdict, parcel.operation, parcel.actor)
