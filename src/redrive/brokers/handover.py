"""What one queue of a broker handed to this process: handed out to the engine, and told about when settled.

The broker's hand-over is the claim, and its acknowledgement the settlement. A message that comes again
although nobody here gave it back was with a worker that is lost: the engine judges it, and it runs alone, as
it would from a store; that it runs alone is written down first, so that whoever finds it again knows which
message it was. Whatever was handed over is in one of the lists here until the broker was told about it. What
the engine gave up, because nobody would take its outcome, is handed to the engine again as lost.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Iterable, Sequence
from itertools import count, islice

from msgspec import Struct

from redrive.brokers.leases import KeptLeases, issue
from redrive.brokers.notes import Notes
from redrive.brokers.outcomes import FAR_MS, Outcomes, ReadySettlement
from redrive.core.carrier import Carrier, Parcel, ParcelStanding
from redrive.core.errors import StoreUnavailable
from redrive.core.lifecycle import State
from redrive.core.message import Delivery, Lapse, Lease, Progress
from redrive.core.ports import Claim, Claimed
from redrive.core.store import Store
from redrive.core.verdict import Release, Settlement

_SEEN = 20_000
_RETURNED_S = 1.0
_JUDGED_AGAIN_S = 5.0
"""How long a lost message whose judgement could not be told lets others go before it."""

_marks = count(1)


class _Out(Struct, frozen=True, gc=False):
    """One parcel that the engine has, until when at least, and as what."""

    parcel: Parcel
    delivery: Delivery
    until_s: float
    alone: bool = False


class _Suspect(Struct, frozen=True, gc=False):
    """A parcel whose worker was lost, how often, and from when on it may be judged."""

    parcel: Parcel
    crashes: int
    from_s: float = 0.0


class Handover:
    """One queue. `out` is what the engine has, by the mark of its delivery; `unsettled` are those of it whose
    outcome could not be told so far."""

    def __init__(self, queue: str, carrier: Carrier, ledger: Store, kept: KeptLeases) -> None:
        self._queue = queue
        self._carrier = carrier
        self._ledger = ledger
        self._kept = kept
        self._notes = Notes(ledger)
        self._outcomes = Outcomes(queue, carrier, ledger)
        self._claiming = asyncio.Lock()
        self._arrived: deque[Parcel] = deque()
        self._out: dict[int, _Out] = {}
        self._unsettled: set[int] = set()
        self._lost: deque[_Suspect] = deque()
        self._suspects: deque[_Suspect] = deque()
        self._seen: dict[str, None] = {}
        self._returned: set[str] = set()
        self._returned_until_s = 0.0

    @property
    def outstanding(self) -> int:
        """How many the engine has, or is to have or to judge."""
        return len(self._arrived) + len(self._out) + len(self._lost) + len(self._suspects)

    async def claim(self, claim: Claim) -> Claimed:
        """What has arrived; or one suspect alone."""
        async with self._claiming:
            lease = self._lease(claim.token, claim.lease_s)
            if claim.alone:
                return Claimed(await self._alone(lease, claim.lease_s), bool(self._suspects))
            page = await self._arrive(claim.limit)
            crashes = [await self._crashes(parcel) for parcel in page]
            # From here to the end nothing is waited for: each of the page is in one list or another.
            fresh = self._without_lost(page, crashes)
            # What comes again and may run beside others was given back in order: no worker was lost with it.
            deliveries = tuple(
                self._hand_out(one, lease, claim.lease_s, 0 if one.redelivered else one.crashes)
                for one in fresh
            )
            more = self._ledger.now() if len(page) == claim.limit else None
            return Claimed(deliveries, bool(self._suspects), more)

    def reclaim(self, token: str, lease_s: float, limit: int) -> list[Delivery]:
        """What lost workers had, and what the engine gave up, for the engine to judge."""
        self._take_back_given_up()
        lease, now_s = self._lease(token, lease_s), time.monotonic()
        found = [out.delivery for out in self._out.values() if out.delivery.lease.token == lease.token]
        for _ in range(len(self._lost)):
            if len(found) >= limit:
                break
            suspect = self._lost.popleft()
            if suspect.from_s > now_s:
                self._lost.append(suspect)
            elif self._carrier.standing(suspect.parcel) is not ParcelStanding.LOST:
                found.append(
                    self._hand_out(suspect.parcel, lease, lease_s, suspect.crashes, lapse=Lapse.LOST)
                )
        return found

    async def settle(self, settlements: Sequence[Settlement]) -> set[str]:
        """Tell the broker; the ids that another consumer has by now.

        What was told by a call that failed later is not told again. What came while the connection was lost
        waits for the message to come again.
        """
        try:
            return await self._settle(settlements)
        except BaseException:
            self._keep_unsettled(settlements)
            raise

    async def close(self) -> None:
        """Nobody is lost with what this process has not even begun."""
        untaken = (*self._arrived, *self._carrier.untaken(self._queue))
        ids = [parcel.message.id for parcel in untaken if not parcel.redelivered]
        if ids:
            await self._notes.returned(ids)

    async def _settle(self, settlements: Sequence[Settlement]) -> set[str]:
        ready: list[ReadySettlement] = []
        refused, waiting = set(), 0
        for settlement in settlements:
            out = self._handed_out(settlement)
            if out is None:
                continue
            standing = self._carrier.standing(out.parcel)
            if standing is ParcelStanding.HELD:
                ready.append((settlement, out.parcel))
            elif standing is ParcelStanding.LOST:
                refused.add(settlement.delivery.message.id)
                await self._forget([settlement])
            else:
                waiting += 1
        for tell, batch in self._outcomes.sorted(await self._without_suspects(ready)):
            await tell(batch)
            await self._forget([settlement for settlement, _ in batch])
        if waiting:
            raise StoreUnavailable(
                f"the broker is not back yet: {waiting} outcomes of {self._queue} wait for it"
            )
        return refused

    def _handed_out(self, settlement: Settlement) -> _Out | None:
        delivery = settlement.delivery
        out = self._out.get(delivery.mark or 0)
        return out if out is not None and out.delivery.lease.token == delivery.lease.token else None

    def _keep_unsettled(self, settlements: Sequence[Settlement]) -> None:
        """Whoever was to judge lost messages asks for them again; all others are asked about for as long as
        they are held."""
        for settlement in settlements:
            out, mark = self._handed_out(settlement), settlement.delivery.mark or 0
            if out is not None and out.delivery.lapse is None:
                self._unsettled.add(mark)
            elif out is not None:
                self._take_back(mark, time.monotonic() + _JUDGED_AGAIN_S)

    def _take_back_given_up(self) -> None:
        """What nobody holds any more, and nobody could tell about: an engine never comes back to it."""
        now_s = time.monotonic()
        for mark in list(self._unsettled):
            out = self._out[mark]
            if out.until_s < now_s and not self._kept.holds(out.delivery.lease):
                self._take_back(mark)

    def _take_back(self, mark: int, from_s: float = 0.0) -> None:
        out = self._out.pop(mark)
        self._unsettled.discard(mark)
        self._lost.append(_Suspect(out.parcel, out.delivery.progress.crashes, from_s))

    async def _without_suspects(self, ready: Sequence[ReadySettlement]) -> list[ReadySettlement]:
        """What the broker is to be told; a message whose worker was lost stays here until it runs alone."""
        told, suspects = [], []
        for settlement, parcel in ready:
            verdict = settlement.verdict
            if isinstance(verdict, Release) and verdict.failure is not None:
                suspects.append(settlement)
                self._suspects.append(_Suspect(parcel, settlement.delivery.progress.crashes + 1))
            else:
                told.append((settlement, parcel))
        await self._forget(suspects)
        return told

    async def _forget(self, settlements: Iterable[Settlement]) -> None:
        """All of them at once: what was told is not told again, whatever happens to the notes."""
        marks = [one.delivery.mark or 0 for one in settlements]
        self._unsettled.difference_update(marks)
        ended = [out for mark in marks if (out := self._out.pop(mark, None)) is not None]
        for out in ended:
            if out.alone:
                await self._notes.ran_alone(out.parcel.message)

    async def _arrive(self, limit: int) -> list[Parcel]:
        """The next ones that nobody has judged; those of an earlier call that failed come first."""
        waits = [one for one in self._arrived if self._carrier.standing(one) is not ParcelStanding.LOST]
        self._arrived = deque(waits)
        self._arrived.extend(await self._carrier.collect(self._queue, max(0, limit - len(waits))))
        return list(islice(self._arrived, limit))

    async def _crashes(self, parcel: Parcel) -> int | None:
        """How many workers were lost with a parcel; None where it may run beside others."""
        if not parcel.redelivered or await self._is_known(parcel.message.id):
            return None
        return max(parcel.crashes, await self._notes.crashes(parcel.message))

    def _without_lost(self, page: Sequence[Parcel], crashes: Sequence[int | None]) -> list[Parcel]:
        """Those that may run beside others; the rest is kept for the engine to judge."""
        fresh = []
        for parcel, lost in zip(page, crashes, strict=True):
            self._arrived.popleft()
            self._seen[parcel.message.id] = None
            if lost is None:
                fresh.append(parcel)
            else:
                self._lost.append(_Suspect(parcel, lost))
        while len(self._seen) > _SEEN:
            del self._seen[next(iter(self._seen))]
        return fresh

    async def _is_known(self, message_id: str) -> bool:
        """Whether this process had it before and lives, or somebody gave it back in order."""
        if message_id in self._seen:
            return True
        if time.monotonic() > self._returned_until_s:
            self._returned = set(await self._notes.all_returned())
            self._returned_until_s = time.monotonic() + _RETURNED_S
        return message_id in self._returned

    async def _alone(self, lease: Lease, lease_s: float) -> tuple[Delivery, ...]:
        while self._suspects:
            suspect = self._suspects[0]
            if self._carrier.standing(suspect.parcel) is ParcelStanding.LOST:
                self._suspects.popleft()
                continue
            await self._notes.runs_alone(suspect.parcel.message, suspect.crashes)
            self._suspects.popleft()
            return (self._hand_out(suspect.parcel, lease, lease_s, suspect.crashes, alone=True),)
        return ()

    def _lease(self, token: str, lease_s: float) -> Lease:
        return issue(self._queue, token, self._ledger.now() + round(lease_s * 1000))

    def _hand_out(
        self,
        parcel: Parcel,
        lease: Lease,
        lease_s: float,
        crashes: int,
        *,
        alone: bool = False,
        lapse: Lapse | None = None,
    ) -> Delivery:
        mark = next(_marks)
        enqueued_at = parcel.message.enqueued_at
        progress = Progress(
            State.CLAIMED,
            due_at=enqueued_at,
            expires_at=enqueued_at + FAR_MS,
            attempts=parcel.attempts + 1,
            crashes=crashes,
            generation=parcel.generation,
            operation=parcel.operation,
        )
        delivery = Delivery(parcel.message, progress, lease, lapse=lapse, mark=mark)
        self._out[mark] = _Out(parcel, delivery, time.monotonic() + lease_s, alone)
        return delivery
