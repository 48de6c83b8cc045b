"""A store whose messages a broker carries: the engine and the office use it like any other.

Queues are the broker's, except those that `inbox` says run from the ledger, and those whose name has a colon
(the office's own, mails, what waits to be relayed). The broker's are claimed, settled and re-driven there;
the ledger keeps dead letters, records, the audit and the totals.
Known weakness: a broker lets no tenant take turns, and hands out what it prefetched also after a pause began.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import replace as changed

from msgspec.structs import replace

from redrive.brokers.beside import BesideLedger
from redrive.brokers.handover import Handover
from redrive.brokers.leases import KeptLeases, is_issued
from redrive.brokers.pairing import Pairing
from redrive.brokers.reports import Reports
from redrive.brokers.returns import PARKED_BY as PARKED_BY
from redrive.brokers.returns import Returns
from redrive.core.carrier import Carrier, Depth
from redrive.core.condition import Description, Durability, Finding, Grade
from redrive.core.errors import StoreError, StoreUnavailable
from redrive.core.lanes import LaneState
from redrive.core.letters import Account, LetterKey
from redrive.core.message import Delivery, Entry, Lease
from redrive.core.ports import PAGE, Claim, Claimed, Receipt
from redrive.core.store import QueueCounts, Store
from redrive.core.verdict import Settlement

OUTBOX = ":outbox"
"""Behind the name of a queue or exchange: what was submitted and waits to be relayed there."""

_PAUSES_S = 1.0
_SEND_BACK = 500


class CarriedStore(BesideLedger):
    """One broker and its ledger. `make_carrier` makes a carrier on the ledger's clock."""

    def __init__(
        self,
        ledger: Store,
        make_carrier: Callable[[Callable[[], int]], Carrier],
        inbox: AbstractSet[str] = frozenset(),
        kept: KeptLeases | None = None,
    ) -> None:
        super().__init__(ledger)
        self._kept = kept or KeptLeases()
        self._make_carrier = make_carrier
        self.inbox = inbox
        self.carrier = make_carrier(ledger.now)
        self._handovers: dict[str, Handover] = {}
        self._reports = Reports(ledger)
        self._returns = Returns(self.carrier, ledger, self._reports)
        self._pairing = Pairing(self.carrier, ledger)
        self._paused: frozenset[str] = frozenset()
        self._paused_until_s = 0.0

    async def open(self) -> None:
        """Open the ledger; the broker is connected to when it is first needed, and may be down until then."""
        await self.ledger.open()

    async def close(self) -> None:
        for handover in self._handovers.values():
            with suppress(StoreError):
                await handover.close()
        await self.carrier.close()
        await self.ledger.close()

    def abandon(self) -> None:
        self.carrier.abandon()
        self.ledger.abandon()

    def twin(self) -> CarriedStore:
        return CarriedStore(self.ledger.twin(), self._make_carrier, self.inbox, self._kept)

    @property
    def outstanding(self) -> int:
        """How many of the broker's messages are with this process."""
        return sum(one.outstanding for one in self._handovers.values())

    def carries(self, queue: str) -> bool:
        """Whether a queue is the broker's."""
        return ":" not in queue and queue not in self.inbox

    async def check_ledger(self) -> None:
        """Refuse to work beside another ledger: dead letters of one broker would lie in two places."""
        await self._pairing.check()

    async def describe(self) -> Description:
        try:
            described, trouble = await self.carrier.describe(), await self._pairing.trouble()
        except StoreError as error:
            url, refused = (await self.ledger.describe()).url, not isinstance(error, StoreUnavailable)
            return Description(url, Durability.UNKNOWN, str(error), lost=True, refused=refused)
        if trouble is not None:
            return changed(described, durability=Durability.UNKNOWN, meaning=trouble)
        return described

    async def examine(self) -> list[Finding]:
        found = [*self._inabilities(), *await self.ledger.examine()]
        try:
            return [*await self.carrier.examine(), *await self._ledger_findings(), *found]
        except StoreError as error:
            fix = "start the broker, or fix the address in `store`; what was accepted waits"
            return [Finding("broker", Grade.WRONG, str(error), fix), *found]

    async def _ledger_findings(self) -> list[Finding]:
        trouble = await self._pairing.trouble()
        if trouble is None:
            return []
        outboxes = [one for one in await self.ledger.queues() if one.queue.endswith(OUTBOX)]
        waiting = sum(one.pending + one.scheduled for one in outboxes)
        fix = "name the ledger that all share in broker.ledger"
        if waiting:
            fix += f"; `redrive serve` beside this one relays the {waiting} messages that were accepted here"
        return [Finding("ledger", Grade.WRONG, trouble, fix)]

    def _inabilities(self) -> list[Finding]:
        can = self.carrier.abilities
        lacks = {"turns between tenants": can.fair, "delays of its own choice": can.delay}
        missing = [name for name, there in lacks.items() if not there]
        if not missing:
            return []
        found = f"the broker's queues have no {' and no '.join(missing)}; a queue with inbox = true has both"
        return [Finding("abilities", Grade.RIGHT, found)]

    async def append(self, groups: Sequence[Sequence[Entry]]) -> list[list[Receipt]]:
        """What is for the broker waits in the ledger until it is relayed, so it has to be the broker's."""
        await self._pairing.admit()
        return await self.ledger.append([[self._for_outbox(entry) for entry in group] for group in groups])

    async def claim(self, claim: Claim) -> Claimed:
        if not self.carries(claim.queue):
            return await self.ledger.claim(claim)
        await self.check_ledger()
        if await self._is_paused(claim.queue):
            return Claimed()
        return await self._handover(claim.queue).claim(claim)

    async def settle(self, settlements: Sequence[Settlement]) -> AbstractSet[str]:
        """By whoever handed it out; the trouble of one does not keep the others waiting."""
        batches: dict[str | None, list[Settlement]] = {}
        for one in settlements:
            lease = one.delivery.lease
            batches.setdefault(lease.queue if is_issued(lease) else None, []).append(one)
        refused, problem = set[str](), None
        for queue, batch in batches.items():
            source = self.ledger if queue is None else self._handover(queue)
            try:
                refused |= await source.settle(batch)
            except Exception as error:  # noqa: BLE001 - raised below
                problem = problem or error
        if problem is not None:
            raise problem
        return refused

    async def extend(self, leases: Sequence[Lease], lease_s: float) -> AbstractSet[str]:
        """The broker's own hand-overs last until they are told about: here it is known who is to do that."""
        self._kept.extend([lease for lease in leases if is_issued(lease)], lease_s)
        kept = [lease for lease in leases if not is_issued(lease)]
        return await self.ledger.extend(kept, lease_s) if kept else set()

    async def wait(self, queues: Sequence[str], timeout_s: float) -> None:
        carried = [queue for queue in queues if self.carries(queue)]
        kept = [queue for queue in queues if queue not in carried]
        waits = []
        if carried:
            waits.append(asyncio.ensure_future(self.carrier.wait(carried, timeout_s)))
        if kept:
            waits.append(asyncio.ensure_future(self.ledger.wait(kept, timeout_s)))
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for one in waits:
                one.cancel()
            await asyncio.gather(*waits, return_exceptions=True)

    async def reclaim(self, queue: str, token: str, lease_s: float, limit: int) -> list[Delivery]:
        found = await self.ledger.reclaim(queue, token, lease_s, limit)
        if self.carries(queue):
            found = await self._reports.let_go(found)
        handover = self._handovers.get(queue)
        return found if handover is None else [*found, *handover.reclaim(token, lease_s, limit - len(found))]

    async def redrive(
        self, queue: str, letters: Sequence[LetterKey], *, actor: str, operation: str | None = None
    ) -> AbstractSet[str]:
        """Sent back to the queue they came from, confirmed; only then are the letters marked."""
        if not self.carries(queue):
            return await self.ledger.redrive(queue, letters, actor=actor, operation=operation)
        moved: set[str] = set()
        for start in range(0, len(letters), _SEND_BACK):
            moved |= await self._returns.send(queue, letters[start : start + _SEND_BACK], actor, operation)
        return moved

    async def accounts(self, queue: str, ids: Sequence[str]) -> list[Account]:
        """Also what waits to be relayed to the queue, or was."""
        found = await self.ledger.accounts(queue, ids)
        if not self.carries(queue) or len(found) == len(ids):
            return found
        by_id = {one.message.id: one for one in await self.ledger.accounts(queue + OUTBOX, ids)}
        by_id |= {one.message.id: one for one in found}
        return [by_id[one] for one in ids if one in by_id]

    async def run_now(self, queue: str, ids: Sequence[str]) -> AbstractSet[str]:
        moved = await self.ledger.run_now(queue, ids)
        return moved | await self.ledger.run_now(queue + OUTBOX, ids) if self.carries(queue) else moved

    async def cancel(self, queue: str, ids: Sequence[str], *, actor: str) -> AbstractSet[str]:
        """What a broker has cannot be taken back; what waits to be relayed can."""
        if not self.carries(queue):
            return await self.ledger.cancel(queue, ids, actor=actor)
        return await self.ledger.cancel(queue + OUTBOX, ids, actor=actor)

    async def purge(self, queue: str, *, actor: str, tenant: str | None = None, limit: int = PAGE) -> int:
        name = queue + OUTBOX if self.carries(queue) else queue
        return await self.ledger.purge(name, actor=actor, tenant=tenant, limit=limit)

    async def queue_names(self) -> list[str]:
        return sorted({*await self.ledger.queue_names(), *self.carrier.queues(), *self._handovers})

    async def queues(self) -> list[QueueCounts]:
        """The ledger's counts, and where it answers the broker's: what waits in a queue of the broker is what
        the broker has there, also of letters that were sent back. For an inbox both wait."""
        found = {one.queue: _relayed(one) for one in await self.ledger.queues()}
        for name in {*self.carrier.queues(), *self._handovers} - set(found):
            found[name] = _empty(name)
        theirs = [name for name in found if self.carries(name) or name in self.inbox]
        with suppress(StoreError):
            for name, depth in (await self.carrier.depths(theirs)).items():
                add = _with_depth if self.carries(name) else _with_intake
                found[name] = add(found[name], depth)
        return [found[name] for name in sorted(found)]

    def _handover(self, queue: str) -> Handover:
        found = self._handovers.get(queue)
        if found is None:
            found = self._handovers[queue] = Handover(queue, self.carrier, self.ledger, self._kept)
        return found

    def _for_outbox(self, entry: Entry) -> Entry:
        if not self.carries(entry.message.queue):
            return entry
        return replace(entry, message=replace(entry.message, queue=entry.message.queue + OUTBOX))

    async def _is_paused(self, queue: str) -> bool:
        if time.monotonic() > self._paused_until_s:
            counts = await self.ledger.queues()
            self._paused = frozenset(one.queue for one in counts if one.state is not LaneState.RUNNING)
            self._paused_until_s = time.monotonic() + _PAUSES_S
        return queue in self._paused


def _empty(queue: str) -> QueueCounts:
    return QueueCounts(queue, LaneState.RUNNING, 0, 0, 0, 0, 0, 0, 0, None)


def _relayed(counts: QueueCounts) -> QueueCounts:
    return changed(counts, relayed=True) if counts.queue.endswith(OUTBOX) else counts


def _with_intake(counts: QueueCounts, depth: Depth) -> QueueCounts:
    """Whoever takes in is no handler: it is not counted among the consumers."""
    return changed(counts, pending=counts.pending + (depth.waiting or 0))


def _with_depth(counts: QueueCounts, depth: Depth) -> QueueCounts:
    if depth.waiting is None:
        return changed(counts, broker_waiting=None, broker_dead=depth.dead)
    return changed(
        counts,
        pending=depth.waiting,
        retry_scheduled=depth.retrying,
        broker_waiting=depth.waiting,
        broker_dead=depth.dead,
        consumers=depth.consumers,
    )
