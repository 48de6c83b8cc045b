"""Source on Redis: claim, settle and extend as scripts; wait as a blocking read of hints.

Settlements and leases of several queues are one script call a queue: a queue is the unit of atomicity.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import assert_never

from redrive.core.failure import REASON_LENGTH, clip
from redrive.core.message import Lease
from redrive.core.ports import Claim, Claimed
from redrive.core.settings import FinishedSettings
from redrive.core.verdict import Bury, Complete, Hold, Release, RetryAt, Settlement
from redrive.stores.redis.client import Argument, Client, whole_call
from redrive.stores.redis.deliveries import read_batch
from redrive.stores.redis.ids import pack_id, unpack_id
from redrive.stores.redis.packing import pack_failure


class RedisSource:
    """core.ports.Source."""

    _client: Client
    _finished: FinishedSettings

    def now(self) -> int:
        return self._client.now()

    async def claim(self, claim: Claim) -> Claimed:
        now, suspects, next_at, batch = await self._client.run(
            "claim",
            self._client.queue_key(claim.queue),
            claim.token,
            claim.limit,
            to_ms(claim.lease_s),
            claim.max_bytes,
            claim.quantum,
            claim.rate.count if claim.rate else 0,
            to_ms(claim.rate.period_s) if claim.rate else 0,
            int(claim.alone),
        )
        self._client.learn_now(now)
        deliveries = read_batch(claim.queue, claim.token, batch)
        return Claimed(tuple(deliveries), bool(suspects), next_at if next_at >= 0 else None)

    @whole_call
    async def settle(self, settlements: Sequence[Settlement]) -> AbstractSet[str]:
        by_queue: defaultdict[str, _Settlements] = defaultdict(_Settlements)
        for settlement in settlements:
            by_queue[settlement.delivery.message.queue].add(settlement)
        refused: set[str] = set()
        keep = -1 if self._finished.keep is None else self._finished.keep
        for queue, asked in by_queue.items():
            answer = await self._client.run(
                "settle",
                self._client.queue_key(queue),
                to_ms(self._finished.dedupe_s),
                keep,
                to_ms(self._finished.remember_s),
                len(asked.completions),
                *asked.flat(),
            )
            refused.update(map(unpack_id, answer))
        return refused

    @whole_call
    async def extend(self, leases: Sequence[Lease], lease_s: float) -> AbstractSet[str]:
        by_queue: defaultdict[str, list[str]] = defaultdict(list)
        for lease in leases:
            by_queue[lease.queue].append(lease.token)
        lost: set[str] = set()
        for queue, tokens in by_queue.items():
            answer = await self._client.run("extend", self._client.queue_key(queue), to_ms(lease_s), *tokens)
            lost.update(token.decode() for token in answer)
        return lost

    @whole_call
    async def wait(self, queues: Sequence[str], timeout_s: float) -> None:
        timeout_ms = to_ms(timeout_s)
        roots = [self._client.queue_key(queue) for queue in queues]
        for root in roots:
            timer_ms = await self._client.run("wait", root)
            if timer_ms >= 0:
                timeout_ms = min(timeout_ms, timer_ms)
        if timeout_ms > 0 and roots:
            await self._client.pop_hint([f"{root}:hint" for root in roots], timeout_ms / 1000)


def to_ms(seconds: float) -> int:
    """Whole milliseconds."""
    return round(seconds * 1000)


class _Settlements:
    """The arguments of one queue's settle: completed ids by token, each behind its length, and the rest."""

    def __init__(self) -> None:
        self.completions: defaultdict[str, bytearray] = defaultdict(bytearray)
        self._others: list[Argument] = []

    def add(self, settlement: Settlement) -> None:
        delivery = settlement.delivery
        raw_id = pack_id(delivery.message.id)
        if isinstance(settlement.verdict, Complete):
            self.completions[delivery.lease.token] += len(raw_id).to_bytes(2, "big") + raw_id
        else:
            self._others += (raw_id, delivery.lease.token, *_pack_verdict(settlement.verdict))

    def flat(self) -> list[Argument]:
        completions = (part for token, ids in self.completions.items() for part in (token, bytes(ids)))
        return [*completions, *self._others]


def _pack_verdict(verdict: RetryAt | Release | Bury | Hold) -> tuple[Argument, ...]:
    match verdict:
        case RetryAt(due_at=due_at, failure=failure):
            return ("retry", due_at, "", "", *pack_failure(failure))
        case Release(due_at=due_at, failure=lost):
            return ("release", due_at, "", "", *pack_failure(lost))
        case Bury(reason=reason, failure=failure):
            return ("bury", 0, reason.value, failure.fingerprint, *pack_failure(failure))
        case Hold(probe_at=probe_at, reason=why):
            return ("hold", probe_at, clip(why, REASON_LENGTH), "", *pack_failure(None))
    assert_never(verdict)
