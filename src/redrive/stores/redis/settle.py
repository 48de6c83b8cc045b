"""Settle and extend on Redis: one script call a queue, the unit of atomicity."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import assert_never

from redrive.core.failure import REASON_LENGTH, clip
from redrive.core.message import Lease
from redrive.core.settings import FinishedSettings
from redrive.core.verdict import Bury, Complete, HoldLane, Release, RetryAt, Settlement
from redrive.stores.redis.client import Argument, Client, to_ms, whole_call
from redrive.stores.redis.frames import pack_id, unpack_id
from redrive.stores.redis.packed import pack_failure


class RedisSettle:
    """core.ports.Source: `settle` and `extend`."""

    _client: Client
    _finished: FinishedSettings

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


def _pack_verdict(verdict: RetryAt | Release | Bury | HoldLane) -> tuple[Argument, ...]:
    match verdict:
        case RetryAt(due_at=due_at, failure=failure):
            return ("retry", due_at, "", "", *pack_failure(failure))
        case Release(due_at=due_at, failure=lost):
            return ("release", due_at, "", "", *pack_failure(lost))
        case Bury(reason=reason, failure=failure):
            return ("bury", 0, reason.value, failure.fingerprint, *pack_failure(failure))
        case HoldLane(probe_at=probe_at, reason=why):
            return ("hold", probe_at, clip(why, REASON_LENGTH), "", *pack_failure(None))
    assert_never(verdict)
