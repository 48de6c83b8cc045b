"""Claim on Redis: due messages of a queue under one lease, chosen and written by one script call."""

from __future__ import annotations

from collections.abc import Sequence

from redrive.core.letters import LetterKey
from redrive.core.message import Delivery
from redrive.core.ports import Claim, Claimed
from redrive.stores.redis.answers import read_batch
from redrive.stores.redis.client import Client, to_ms
from redrive.stores.redis.moves import pack_letter_keys


class RedisClaim:
    """core.ports.Source: `now`, `claim` and `take`."""

    _client: Client

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
            int(claim.fair),
        )
        self._client.learn_now(now)
        deliveries = read_batch(claim.queue, claim.token, batch)
        return Claimed(tuple(deliveries), bool(suspects), next_at if next_at >= 0 else None)

    async def take(self, queue: str, keys: Sequence[LetterKey], token: str, lease_s: float) -> list[Delivery]:
        root = self._client.queue_key(queue)
        batch = await self._client.run("take", root, token, to_ms(lease_s), *pack_letter_keys(keys))
        return read_batch(queue, token, batch)
