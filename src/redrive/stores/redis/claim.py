"""Claim on Redis: due messages of a queue under one lease, chosen and written by one script call."""

from __future__ import annotations

from redrive.core.ports import Claim, Claimed
from redrive.stores.redis.client import Client, to_ms
from redrive.stores.redis.reading import read_batch


class RedisClaim:
    """core.ports.Source: `now` and `claim`."""

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
        )
        self._client.learn_now(now)
        deliveries = read_batch(claim.queue, claim.token, batch)
        return Claimed(tuple(deliveries), bool(suspects), next_at if next_at >= 0 else None)
