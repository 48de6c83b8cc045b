"""Wait on Redis: a blocking read of hints, which only wake; what is there the next claim finds out."""

from __future__ import annotations

from collections.abc import Sequence

from redrive.stores.redis.client import Client, to_ms, whole_call


class RedisWait:
    """core.ports.Source: `wait`."""

    _client: Client

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
