"""Commands on their way to the node that has their key.

Redirections of a cluster are followed here, because a redirected command was not run; nothing else is ever
sent twice. A node that failed is doubted, and the error goes on to the caller.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from redis.exceptions import AskError, ClusterDownError, MovedError, ReadOnlyError, TryAgainError
from redis.exceptions import ConnectionError as LostConnection
from redis.exceptions import TimeoutError as NoAnswer

from redrive.core.errors import StoreUnavailable
from redrive.stores.redis.nodes import Node, Nodes, run_together
from redrive.stores.redis.pipe import Argument

REPLICAS_TIMEOUT_MS = 1_000

_REDIRECTIONS = 5
_TRY_AGAIN_S = 0.05


class Sender:
    """Sends commands; with `wait_replicas`, what accepts messages waits for so many replicas."""

    def __init__(self, nodes: Nodes, wait_replicas: int) -> None:
        self._nodes = nodes
        self._wait_replicas = wait_replicas

    async def send(self, key: str | None, *parts: Argument) -> Any:
        """Run one command where its key is."""

        async def run(node: Node, asking: bool) -> Any:
            if asking:
                return (await run_together(node.commands, ("ASKING",), parts))[-1]
            return await node.ask(*parts)

        return await self._route(key, run)

    async def run(self, key: str, *parts: Argument, accepts: bool) -> Any:
        """Run a script where its key is."""
        wanted = self._wait_replicas if accepts else 0

        async def run(node: Node, asking: bool) -> Any:
            if asking or wanted:
                return await _run_with_more(node, parts, asking, wanted)
            return await node.scripts.run(parts)

        return await self._route(key, run)

    async def _route(self, key: str | None, run: Callable[[Node, bool], Awaitable[Any]]) -> Any:
        """Have it run where the key is, with leave to ask where that is being moved."""
        node, asking = await self._nodes.find(key), False
        for _ in range(_REDIRECTIONS):
            try:
                return await run(node, asking)
            except AskError as redirection:
                node = self._nodes.follow(redirection, node)
                asking = not isinstance(redirection, MovedError)
            except TryAgainError:
                await asyncio.sleep(_TRY_AGAIN_S)
            except (LostConnection, NoAnswer):
                await self._nodes.doubt(node)
                raise
            except (ClusterDownError, ReadOnlyError):
                node.scripts.renew()
                await self._nodes.doubt(node)
                raise
        raise TryAgainError("TRYAGAIN no node of the cluster took the command")

    async def pop_first(self, keys: Sequence[str], timeout_s: float) -> None:
        """Block until one of the lists has an element, and take it.

        On a cluster no read waits for lists in several slots: one read each, the first ends all.
        """
        groups = self._nodes.by_slot(keys)
        if len(groups) == 1:
            await self._pop(keys, timeout_s)
            return
        reads = [asyncio.ensure_future(self._pop(group, timeout_s)) for group in groups]
        try:
            done, _ = await asyncio.wait(reads, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for read in reads:
                read.cancel()
            await asyncio.gather(*reads, return_exceptions=True)
        for read in done:
            read.result()

    async def _pop(self, keys: Sequence[str], timeout_s: float) -> None:
        async def run(node: Node, asking: bool) -> Any:
            before = [("ASKING",)] if asking else []
            return await node.blocking.run(*before, ("BLPOP", *keys, str(timeout_s)))

        await self._route(keys[0], run)


async def _run_with_more(node: Node, parts: Sequence[Argument], asking: bool, wanted: int) -> Any:
    """Leave to ask and the replicas' confirmation hold for a connection, so all goes through one; a pool's,
    because waiting for replicas holds up whatever comes behind."""
    before = [("ASKING",)] if asking else []
    after = [("WAIT", wanted, REPLICAS_TIMEOUT_MS)] if wanted else []
    answers = await run_together(node.commands, *before, parts, *after)
    if wanted and answers[-1] < wanted:
        raise StoreUnavailable(
            f"{node.address} has stored this, but {answers[-1]} of {wanted} replicas have confirmed it: "
            "it may be lost when this server dies; repeat it with the same id or dedupe key, and look at "
            "the replicas"
        )
    return answers[len(before)]
