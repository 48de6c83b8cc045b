"""Apps on a real broker for the tests: a ledger of their own, what other software would do, and waiting.

A broker joins the suite by one more class with these verbs.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Protocol

import aiormq
from pamqp import commands

from redrive import Redrive
from redrive.brokers.rabbitmq.connection import BrokerLine
from redrive.brokers.rabbitmq.declare import declare_queue
from redrive.brokers.rabbitmq.design import TopologyDesign
from redrive.brokers.rabbitmq.properties import Properties
from redrive.brokers.rabbitmq.publish import Post, Publisher
from redrive.core.letters import DeadLetter
from redrive.wiring import load
from tests.waiting import wait_until

WAIT_S = 20.0
_TOLD_S = 0.25


class Broker(Protocol):
    """What the suite needs of a broker."""

    def make_app(self, **flags: object) -> Redrive:
        """An app on this broker, its ledger in the test's folder; retries wait for a moment."""
        ...

    async def put(self, queue: str, body: bytes, **properties: Any) -> None:
        """Publish as other software does."""
        ...

    async def depth(self, queue: str) -> int | None:
        """How many messages are ready in a queue; None: there is none of that name."""
        ...

    async def take(self, queue: str) -> tuple[bytes, Mapping[str, Any]] | None:
        """Take a message out of a queue as other software does: its body and headers."""
        ...


class RabbitBroker:
    """One virtual host."""

    def __init__(self, url: str, folder: Path) -> None:
        self.url = url
        self._folder = folder
        self._connection: aiormq.abc.AbstractConnection | None = None
        self.given: dict[str, object] = {}
        """The settings of the app that was made last."""

    def make_app(self, *, topology: str | None = None, ledger: str | None = None, **flags: object) -> Redrive:
        file = self._folder / "topology.toml"
        file.write_text(topology or FAST)
        given = {name.replace("__", "."): value for name, value in flags.items()}
        data = self._folder / (ledger or "ledger")
        data.mkdir(exist_ok=True)
        self.given = {"store": self.url, "data": str(data), "broker.topology": str(file), **given}
        return Redrive(settings=load(self.given, environ={}))

    async def put(self, queue: str, body: bytes, *, exchange: str = "", **properties: Any) -> None:
        """A queue that was just declared may refuse a message at first."""
        properties.setdefault("delivery_mode", 2)

        async def taken() -> bool:
            channel = await self._channel()
            made = commands.Basic.Properties(**properties)
            try:
                await channel.basic_publish(
                    body, exchange=exchange, routing_key=queue, properties=made, mandatory=True
                )
            except aiormq.exceptions.DeliveryError:
                return False
            finally:
                await channel.close()
            return True

        await wait_until(taken, WAIT_S, f"{queue} takes a message")

    async def write(self, queue: str, body: bytes, properties: Properties) -> None:
        """Publish with exactly these properties: the driver would add an id."""
        line = BrokerLine(self.url, "the test's broker", "writes")
        publisher = Publisher(line, "the test's broker", _nothing)

        async def taken() -> bool:
            return not await publisher.publish([Post("", queue, body, properties)], _nothing)

        await wait_until(taken, WAIT_S, f"{queue} takes a message")
        await line.close()

    async def declare(self, queue: str, **arguments: Any) -> None:
        channel = await self._channel()
        named = {name.replace("_", "-"): value for name, value in arguments.items()}
        await channel.queue_declare(queue, durable=True, arguments=named)
        await channel.close()

    async def delete(self, *queues: str, exchange: str | None = None) -> None:
        channel = await self._channel()
        for queue in queues:
            await channel.queue_delete(queue)
        if exchange is not None:
            await channel.exchange_delete(exchange)
        await channel.close()

    async def replace(self, queue: str, design: TopologyDesign) -> None:
        """Delete a queue and declare it again, without waiting in between."""
        channel = await self._channel()
        (wanted,) = (one for one in design.topology().queues if one.name == queue)
        await asyncio.gather(channel.queue_delete(queue), declare_queue(channel, wanted))
        await channel.close()

    async def depth(self, queue: str) -> int | None:
        """RabbitMQ says 0 of a quorum queue that has not told it within `_TOLD_S`: then it is asked again."""
        began_s, channel = time.monotonic(), await self._channel()
        try:
            count = (await channel.queue_declare(queue, passive=True)).message_count
        except aiormq.exceptions.ChannelNotFoundEntity:
            return None
        finally:
            await channel.close()
        return count if count or time.monotonic() < began_s + _TOLD_S else await self.depth(queue)

    async def reject(self, queue: str) -> None:
        """Take a message and let it die, as a consumer of other software does."""
        channel = await self._channel()
        found = await channel.basic_get(queue)
        assert isinstance(found.delivery, commands.Basic.GetOk)
        await channel.basic_reject(found.delivery.delivery_tag or 0, requeue=False)
        await channel.close()

    async def look(self, queue: str) -> None:
        """Take a message and let it go again, as a person does who looks at it."""
        channel = await self._channel()
        await channel.basic_get(queue)
        await channel.close()

    async def take(self, queue: str) -> tuple[bytes, Mapping[str, Any]] | None:
        channel = await self._channel()
        found = await channel.basic_get(queue, no_ack=True)
        await channel.close()
        if not isinstance(found.delivery, commands.Basic.GetOk):
            return None
        return found.body, found.header.properties.headers or {}

    async def close(self) -> None:
        if self._connection is not None and not self._connection.is_closed:
            await self._connection.close()

    async def _channel(self) -> aiormq.abc.AbstractChannel:
        if self._connection is None or self._connection.is_closed:
            self._connection = await aiormq.connect(self.url)
        return await self._connection.channel()


FAST = """
[defaults]
retry_ttl_s = 0.2
[queues."q.one"]
[queues."q.two"]
[queues."q.steps"]
retry = "backoff"
steps_s = [0.1, 0.2, 0.4]
"""


@asynccontextmanager
async def working(app: Redrive, **how: Any) -> AsyncIterator[Redrive]:
    """The app with a worker, until the block ends."""
    async with app:
        worker = asyncio.create_task(app.run(signals=False, **how))
        try:
            yield app
        finally:
            worker.cancel()
            await asyncio.gather(worker, return_exceptions=True)


async def _nothing(*_: object) -> None:
    """There is nothing to repair."""


async def letters(app: Redrive, queue: str) -> list[DeadLetter]:
    """The dead letters of a queue that the ledger has."""
    return list((await app.store.letters(queue)).letters)


async def some_letters(app: Redrive, queue: str, count: int = 1) -> list[DeadLetter]:
    """The letters, once there are so many."""

    async def enough() -> bool:
        return len(await letters(app, queue)) >= count

    await wait_until(enough, WAIT_S, f"{queue} has {count} dead letters")
    return await letters(app, queue)


def body(**fields: object) -> bytes:
    return json.dumps(fields).encode()
