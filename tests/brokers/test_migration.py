"""The steps that replace a queue in use: played as they are printed, while messages keep coming."""

from __future__ import annotations

import asyncio
import json
import math
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import aio_pika
import httpx
import pytest

from redrive.cli import run
from tests.brokers.server import RabbitServer, start_rabbitmq
from tests.waiting import wait_until

BEFORE = """
[exchanges]
events = "topic"
[queues."q.orders"]
bindings = { events = ["#", "orders.*"] }
retry_ttl_s = 0.2
"""
AFTER = BEFORE.replace("retry_ttl_s = 0.2", 'type = "classic"')
WAIT_S = 20.0


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RabbitServer]:
    """A broker with the plugin that moves messages, and rabbitmqadmin, which it serves itself."""
    server = start_rabbitmq(tmp_path, management=True, plugins=("rabbitmq_shovel",))
    tool = httpx.get(f"{server.management_url}/cli/rabbitmqadmin", timeout=30).raise_for_status()
    (server.folder / "rabbitmqadmin").write_text(tool.text)
    yield server
    server.kill()
    server.stop()


class Play:
    """Carries out printed steps, with a publisher that never stops and a consumer where one is asked for."""

    def __init__(self, server: RabbitServer, topology: Path) -> None:
        self._server, self._flags = server, ["--topology", str(topology), "--store", server.url]
        self.sent: set[bytes] = set()
        self.received: set[bytes] = set()

    def step(self, step: str) -> None:
        self._publish()
        words, _, command = step.partition(": ")
        if "consumers work" in words:
            self.finish()
        elif "wait until" in words:
            asyncio.run(wait_until(self._is_moved, math.inf, "the holding queue is empty"))
        if command.startswith("rabbitmqctl "):
            self._server.control(*shlex.split(command.partition(" | ")[0])[1:])
        elif command.startswith("rabbitmqadmin "):
            self._administer(shlex.split(command)[1:])
        elif command:
            assert run([*shlex.split(command)[1:], *self._flags, "--yes"]) in (0, 3)

    def _administer(self, words: list[str]) -> None:
        tool = [sys.executable, "-W", "ignore", str(self._server.folder / "rabbitmqadmin")]
        where = ["--host", "127.0.0.1", "--port", str(self._server.management_port)]
        subprocess.run([*tool, *where, *words], check=True, capture_output=True, timeout=60)

    def _publish(self) -> None:
        body = f"order {len(self.sent)}".encode()

        async def taken() -> bool:
            """A queue that was just declared may refuse a message at first."""
            async with await aio_pika.connect(self._server.url) as connection:
                channel = await connection.channel(on_return_raises=True)
                exchange = await channel.get_exchange("events")
                try:
                    await exchange.publish(
                        aio_pika.Message(body, delivery_mode=2), "orders.new", mandatory=True, timeout=WAIT_S
                    )
                except aio_pika.exceptions.PublishError:
                    raise
                except aio_pika.exceptions.DeliveryError:
                    return False
                return True

        asyncio.run(wait_until(taken, WAIT_S, "the message is taken"))
        self.sent.add(body)

    def _is_moved(self) -> bool:
        """Whether the holding queue is empty, also of what is on its way to the other one."""
        query = "ra:local_query({'%2F_q.orders.holding', node()}, fun rabbit_fifo:query_messages_total/1)"
        return int(self._server.control("eval", f"{{ok, {{_, Count}}, _}} = {query}, Count.")) == 0

    def finish(self) -> None:
        """Consume the queue until it is empty."""

        async def consume() -> None:
            async with await aio_pika.connect(self._server.url) as connection:
                queue = await (await connection.channel()).get_queue("q.orders")
                while message := await queue.get(fail=False):
                    self.received.add(message.body)
                    await message.ack()

        asyncio.run(consume())


def test_a_queue_is_replaced_by_the_printed_steps_and_no_message_is_missing(
    server: RabbitServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    topology = tmp_path / "topology.toml"
    topology.write_text(BEFORE)
    flags = ["--topology", str(topology), "--store", server.url, "--management", server.management_url]
    assert run(["rabbitmq", "topology", "apply", "--yes", *flags]) == 0
    topology.write_text(AFTER)
    capsys.readouterr()
    run(["rabbitmq", "topology", "plan", "--json", *flags])
    changes = {one["name"]: one for one in json.loads(capsys.readouterr().out)["changes"]}
    play = Play(server, topology)
    for step in changes["q.orders"]["steps"]:
        play.step(step)
    play.finish()
    assert play.received == play.sent
    run(["rabbitmq", "topology", "diff", "--json", *flags])
    left = [one["name"] for one in json.loads(capsys.readouterr().out.splitlines()[-1])["changes"]]
    assert left == ["q.orders.dlq", "q.orders.retry"]
