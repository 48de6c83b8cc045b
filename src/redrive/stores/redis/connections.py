"""Connections to one server: a pool for commands, and one for blocking reads without a read timeout.

The driver never repeats a command by itself; ours are idempotent and their callers repeat them. A
connection whose command was cancelled is closed by the driver, so that no late reply answers the next
command. Nothing is connected before it is used.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from redrive.core.errors import ConfigurationError
from redrive.stores.redis.errors import mask_url

COMMAND_TIMEOUT_S = 5.0
CONNECT_TIMEOUT_S = 5.0
POOL_TIMEOUT_S = 30.0
CONNECTIONS = 16
BLOCKING_CONNECTIONS = 64


@dataclass(frozen=True, slots=True)
class Node:
    """One server; `address` never holds a secret."""

    address: str
    commands: Redis
    blocking: Redis

    async def ask(self, *parts: str | int) -> Any:
        """Run a single command here, whichever node has its key."""
        return await self.commands.execute_command(*parts)  # type: ignore[no-untyped-call]

    async def close(self) -> None:
        await self.commands.aclose()
        await self.blocking.aclose()

    async def forget_idle(self) -> None:
        """Connect anew from now on: the name may stand for another server since."""
        for client in (self.commands, self.blocking):
            await client.connection_pool.disconnect(inuse_connections=False)


def make_node(url: str) -> Node:
    """A server by its address, not yet connected."""
    return Node(
        mask_url(url),
        _connect(url, COMMAND_TIMEOUT_S, CONNECTIONS),
        _connect(url, None, BLOCKING_CONNECTIONS),
    )


def move_url(url: str, host: str, port: int) -> str:
    """The same address, login and options on another server."""
    parts = urlsplit(url)
    login, mark, _ = parts.netloc.rpartition("@")
    name = f"[{host}]" if ":" in host else host
    return urlunsplit(parts._replace(netloc=f"{login}{mark}{name}:{port}"))


async def run_together(client: Redis, *commands: tuple[Any, ...]) -> list[Any]:
    """Several commands on one connection; the first error is raised as the server said it."""
    pipeline = client.pipeline(transaction=False)
    for command in commands:
        pipeline.execute_command(*command)
    answers: list[Any] = await pipeline.execute(raise_on_error=False)
    for answer in answers:
        if isinstance(answer, Exception):
            raise answer
    return answers


def _connect(url: str, read_timeout_s: float | None, connections: int) -> Redis:
    try:
        pool = BlockingConnectionPool.from_url(
            url,
            max_connections=connections,
            timeout=POOL_TIMEOUT_S,
            socket_timeout=read_timeout_s,
            socket_connect_timeout=CONNECT_TIMEOUT_S,
            retry=Retry(NoBackoff(), 0),
            protocol=2,
        )
    except (TypeError, ValueError):
        # The driver's text may quote a part of the password.
        raise ConfigurationError(
            f"the address {mask_url(url)} cannot be read: write redis://user:password@host:6379/0, "
            "with special characters of the password percent-encoded"
        ) from None
    return Redis.from_pool(pool)
