"""What was submitted for a broker, from the ledger to the broker: marked only after it was confirmed.

While the broker is down everything waits in the ledger. A crash between the two publishes once more, under
the same id. A message that the broker will never take is a dead letter of the outbox, with its words.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from msgspec.structs import replace

from redrive.brokers.carried import OUTBOX, CarriedStore
from redrive.brokers.rounds import go_round
from redrive.core.carrier import MessagesRefused, PublishingInterrupted
from redrive.core.errors import StoreError, StoreUnavailable
from redrive.core.failure import Failure, Kind
from redrive.core.fingerprint import fingerprint
from redrive.core.message import Delivery, Message
from redrive.core.ports import Claim
from redrive.core.verdict import Bury, Complete, Reason, Release, Settlement, Verdict

_BATCH = 500
_LEASE_S = 60.0
_IDLE_S = 0.05
_FIRST_PAUSE_MS, _LONGEST_PAUSE_MS = 50, 5_000
_SAID_AGAIN_S = 15.0
_TOLD_AGAIN = 20


class _Loss(NamedTuple):
    """What was wrong, and until when it is said again: what waits comes to another process after that."""

    why: str
    until_s: float


class Publications:
    """Relays for one ledger. By queue: the failures in a row, what was wrong when the broker did not answer,
    and how often in a row no queue took all of a batch."""

    def __init__(self, store: CarriedStore) -> None:
        self._ledger, self._carrier = store.ledger, store.carrier
        self._failures = Counter[str]()
        self._lost: dict[str, _Loss] = {}
        self._untaken = Counter[str]()

    async def step(self) -> float:
        """A batch of each queue that has something to relay; how long to wait before the next."""
        names = [name for name in await self._ledger.queue_names() if name.endswith(OUTBOX)]
        return 0.0 if await go_round(names, self._relay) else _IDLE_S

    async def _relay(self, queue: str) -> bool:
        deliveries = await self._claim(queue)
        if not deliveries:
            await self._raise_again(queue)
            return False
        try:
            untaken = await self._carrier.publish([_addressed(one) for one in deliveries])
        except MessagesRefused as error:
            await self._settle(deliveries, error.confirmed, error.reasons, _LONGEST_PAUSE_MS)
            raise StoreError(f"{error}: they are dead letters of {queue}") from error
        except BaseException as error:
            if isinstance(error, StoreUnavailable):
                self._lost[queue] = _Loss(str(error), time.monotonic() + _SAID_AGAIN_S)
            confirmed = error.confirmed if isinstance(error, PublishingInterrupted) else frozenset()
            await self._settle(deliveries, confirmed, {}, self._pause_ms(queue))
            raise
        self._failures.pop(queue, None)
        self._lost.pop(queue, None)
        taken = {place for place, one in enumerate(deliveries) if one.message.id not in untaken}
        await self._settle(deliveries, taken, {}, _LONGEST_PAUSE_MS)
        self._tell_untaken(queue, len(untaken))
        return not untaken

    async def _raise_again(self, queue: str) -> None:
        """A broker that did not answer is not back because nothing is due: what it did not take waits."""
        loss = self._lost.get(queue)
        if loss is None:
            return
        counts = next((one for one in await self._ledger.queues() if one.queue == queue), None)
        waits = counts is not None and counts.pending + counts.scheduled + counts.processing > 0
        if waits and time.monotonic() < loss.until_s:
            raise StoreUnavailable(loss.why)
        del self._lost[queue]

    def _tell_untaken(self, queue: str, count: int) -> None:
        """What no queue takes is tried every few seconds, and told now and then."""
        if not count:
            self._untaken.pop(queue, None)
            return
        self._untaken[queue] += 1
        if self._untaken[queue] in (1, 3) or self._untaken[queue] % _TOLD_AGAIN == 0:
            name = queue.removesuffix(OUTBOX)
            raise StoreError(f"no queue takes {count} messages for {name}: they wait; see its bindings")

    async def _claim(self, queue: str) -> Sequence[Delivery]:
        claimed = await self._ledger.claim(Claim(queue, os.urandom(12).hex(), _BATCH, _LEASE_S))
        if not claimed.deliveries and claimed.suspects:
            claimed = await self._ledger.claim(Claim(queue, os.urandom(12).hex(), 1, _LEASE_S, alone=True))
        return claimed.deliveries

    async def _settle(
        self,
        deliveries: Sequence[Delivery],
        confirmed: AbstractSet[int],
        refused: Mapping[int, str],
        pause_ms: int,
    ) -> None:
        """Mark what the broker has; what it will never take is dead, the rest waits."""
        now = self._ledger.now()

        def verdict(place: int, delivery: Delivery) -> Verdict:
            if place in confirmed:
                return Complete()
            if place in refused:
                return Bury(Reason.PERMANENT, _failure(delivery, now, refused[place]))
            return Release(now + pause_ms)

        await self._ledger.settle(
            [Settlement(one, verdict(place, one)) for place, one in enumerate(deliveries)]
        )

    def _pause_ms(self, queue: str) -> int:
        self._failures[queue] += 1
        grown: int = _FIRST_PAUSE_MS << min(self._failures[queue], 10)
        return min(_LONGEST_PAUSE_MS, grown)


def _failure(delivery: Delivery, now: int, words: str) -> Failure:
    reason = f"the broker will never take it: {words}"
    return Failure(
        at=now,
        attempt=delivery.progress.attempts,
        kind=Kind.PERMANENT,
        reason=reason,
        fingerprint=fingerprint(Kind.PERMANENT.value, None, reason, delivery.message.queue),
    )


def _addressed(delivery: Delivery) -> Message:
    message = delivery.message
    return replace(message, queue=message.queue.removesuffix(OUTBOX))
