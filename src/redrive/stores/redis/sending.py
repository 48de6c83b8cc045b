"""Commands on their way to the node that has their key.

Redirections of a cluster are followed here, because a redirected command was not run; nothing else is ever
sent twice. A node that failed is doubted, and the error goes on to the caller.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from redis.exceptions import AskError, ClusterDownError, MovedError, ReadOnlyError, TryAgainError
from redis.exceptions import ConnectionError as LostConnection
from redis.exceptions import TimeoutError as NoAnswer

from redrive.core.errors import StoreUnavailable
from redrive.stores.redis.nodes import Node, Nodes, run_together

REPLICAS_TIMEOUT_MS = 1_000

_REDIRECTIONS = 5
_TRY_AGAIN_S = 0.05
_FAILED_OVER = (LostConnection, NoAnswer, ClusterDownError, ReadOnlyError)

Argument = str | int | bytes


class Sender:
    """Sends commands; with `wait_replicas`, what accepts messages waits for so many replicas."""

    def __init__(self, nodes: Nodes, wait_replicas: int) -> None:
        self._nodes = nodes
        self._wait_replicas = wait_replicas

    async def send(
        self, key: str | None, *parts: Argument | float, blocking: bool = False, accepts: bool = False
    ) -> Any:
        """Run one command where its key is."""
        node, asking = await self._nodes.find(key), False
        for _ in range(_REDIRECTIONS):
            client: Any = node.blocking if blocking else node.commands
            try:
                if asking or (accepts and self._wait_replicas):
                    return await self._send_with_more(node, parts, blocking, asking, accepts)
                return await client.execute_command(*parts)
            except AskError as redirection:
                node = self._nodes.follow(redirection, node)
                asking = not isinstance(redirection, MovedError)
            except TryAgainError:
                await asyncio.sleep(_TRY_AGAIN_S)
            except _FAILED_OVER:
                await self._nodes.doubt(node)
                raise
        raise TryAgainError("TRYAGAIN no node of the cluster took the command")

    async def pop_first(self, keys: Sequence[str], timeout_s: float) -> None:
        """Block until one of the lists has an element, and take it.

        On a cluster no read waits for lists in several slots: one read each, the first ends all.
        """
        groups = self._nodes.by_slot(keys)
        if len(groups) == 1:
            await self.send(keys[0], "BLPOP", *keys, timeout_s, blocking=True)
            return
        reads = [
            asyncio.ensure_future(self.send(group[0], "BLPOP", *group, timeout_s, blocking=True))
            for group in groups
        ]
        try:
            done, _ = await asyncio.wait(reads, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for read in reads:
                read.cancel()
            await asyncio.gather(*reads, return_exceptions=True)
        for read in done:
            read.result()

    async def _send_with_more(
        self, node: Node, parts: tuple[Any, ...], blocking: bool, asking: bool, accepts: bool
    ) -> Any:
        """Leave to ask and the replicas' confirmation hold for the connection, so all goes through one."""
        wanted = self._wait_replicas if accepts else 0
        before = [("ASKING",)] if asking else []
        after = [("WAIT", wanted, REPLICAS_TIMEOUT_MS)] if wanted else []
        client = node.blocking if blocking else node.commands
        answers = await run_together(client, *before, parts, *after)
        if wanted and answers[-1] < wanted:
            raise StoreUnavailable(
                f"{node.address} has stored this, but {answers[-1]} of {wanted} replicas have confirmed it: "
                "it may be lost when this server dies; repeat it with the same id or dedupe key, and look at "
                "the replicas"
            )
        return answers[len(before)]
