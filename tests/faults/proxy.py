"""A TCP proxy in front of a server that cuts connections at any byte.

Every connection carries bytes both ways until its budget is spent: the bytes up to the cut go through, then
both ends are closed hard. A cut in the request may leave the server without the command, a cut in the reply
leaves it done and unheard.
"""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

from tests.waiting import wait_until

_CHUNK = 65_536


@dataclass(slots=True, eq=False)
class Budget:
    """How many bytes one connection still carries to the server (`request`) and back (`reply`)."""

    request: float = math.inf
    reply: float = math.inf
    spent: bool = False


class Proxy:
    """Listens for clients of one server. `cuts` counts the connections cut, `carried` the bytes."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._make_budget: Callable[[], Budget] = Budget
        self._ways: set[asyncio.Task[None]] = set()
        self._open = 0
        self._budgets: list[Budget] = []
        self.port = 0
        self.cuts = 0
        self.carried = Budget(0, 0)

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One client, until either end closes or the budget is spent."""
        self._open += 1
        try:
            await self._connect(reader, writer)
        finally:
            await _abort(writer)
            self._open -= 1

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            server_reader, server_writer = await asyncio.open_connection("127.0.0.1", self._target)
        except OSError:
            return
        budget = self._make_budget()
        self._budgets.append(budget)
        ways = (
            asyncio.create_task(self._carry(reader, server_writer, budget, "request")),
            asyncio.create_task(self._carry(server_reader, writer, budget, "reply")),
        )
        self._ways.update(ways)
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        self._ways.difference_update(ways)
        self._budgets.remove(budget)
        for way in ways:
            way.cancel()
        await _abort(server_writer)

    def arm(self, budget: Budget) -> None:
        """Cut each open connection after so many bytes from now; nothing is counted as carried yet."""
        for each in self._budgets:
            each.request, each.reply = budget.request, budget.reply
        self.carried = Budget(0, 0)

    def cut_all(self, make_budget: Callable[[], Budget]) -> None:
        """From now on cut each connection, also the open ones, when its own budget is spent."""
        self._make_budget = make_budget
        for each in self._budgets:
            drawn = make_budget()
            each.request, each.reply = drawn.request, drawn.reply

    async def cut_now(self) -> None:
        """Cut whatever is open, and wait until it is closed."""
        self.cuts += len(self._budgets)
        await self.close()

    async def close(self) -> None:
        """End whatever is still open, and wait until it is closed."""
        for way in list(self._ways):
            way.cancel()
        await wait_until(lambda: not self._open, 10, "every connection is closed")

    async def _carry(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, budget: Budget, way: str
    ) -> None:
        with suppress(OSError):
            while chunk := await reader.read(_CHUNK):
                left = getattr(budget, way)
                allowed = chunk[: int(min(left, len(chunk)))]
                writer.write(allowed)
                await writer.drain()
                setattr(self.carried, way, getattr(self.carried, way) + len(allowed))
                setattr(budget, way, left - len(allowed))
                if left <= len(chunk):
                    self.cuts += not budget.spent
                    budget.spent = True
                    return


async def _abort(writer: asyncio.StreamWriter) -> None:
    writer.transport.abort()
    with suppress(OSError):
        await writer.wait_closed()


def at_random(chance: random.Random, most: int) -> Callable[[], Budget]:
    """Each connection is cut after some bytes, in the request or in the reply."""

    def budget() -> Budget:
        spent = chance.randint(1, most)
        return Budget(request=spent) if chance.random() < 0.5 else Budget(reply=spent)

    return budget


@asynccontextmanager
async def open_proxy(port: int, at: int = 0) -> AsyncIterator[Proxy]:
    """A proxy to a port of this machine that cuts nothing yet, closed at the end; `at` is its own port."""
    proxy = Proxy(port)
    server = await asyncio.start_server(proxy.handle, "127.0.0.1", at)
    proxy.port = server.sockets[0].getsockname()[1]
    try:
        yield proxy
    finally:
        server.close()
        await proxy.close()
        await server.wait_closed()
