"""Records dead letters of other software as they lie in a real broker, for tests/brokers/fixtures.

    .venv/bin/python -m tests.brokers.foreign.record

Installs Celery and Dramatiq into a temporary environment, lets their workers fail on a private broker, and
writes what they leave: one file a letter, the body as base64. The tests read the files; run it when a new
version of one of them is to be read, or the fixtures are doubted.
"""

from __future__ import annotations

import asyncio
import base64
import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import aio_pika
from aio_pika.abc import AbstractChannel, AbstractIncomingMessage

from tests.brokers.server import RabbitServer, start_rabbitmq

HERE = Path(__file__).parent
FIXTURES = HERE.parent / "fixtures"
WAIT_S = 60.0
_PLACE = re.compile(rb"/[^\"' ]*/foreign[a-z0-9_]+(?=/)")
"""The temporary folder in tracebacks: where a fixture was recorded is nobody's business."""

PROPERTIES = (
    "content_type",
    "content_encoding",
    "correlation_id",
    "reply_to",
    "message_id",
    "type",
    "app_id",
    "priority",
    "expiration",
    "delivery_mode",
)


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="foreign") as folder:
        shop = Path(folder) / "shop"
        shutil.copytree(HERE, shop)
        python = _install(Path(folder) / "environment")
        (Path(folder) / "broker").mkdir()
        server = start_rabbitmq(Path(folder) / "broker", management=True)
        try:
            _record_celery(server, python, shop)
            _record_dramatiq(server, python, shop)
            asyncio.run(_record_plain(server.virtual_host("plain")))
        finally:
            server.stop()


def _install(folder: Path) -> Path:
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    python = folder / "bin/python"
    subprocess.run(
        [str(python), "-m", "pip", "install", "--quiet", "celery", "dramatiq[rabbitmq]"], check=True
    )
    return python


def _record_celery(server: RabbitServer, python: Path, shop: Path) -> None:
    url = server.virtual_host("celery")
    worker = ["celery", "--app", "celery_shop", "worker", "--pool", "solo", "--queues", "shop"]
    send = [str(python), "celery_shop.py"]
    with _running([str(python), "-m", *worker], url, shop):
        asyncio.run(_declare_slow(url))
        subprocess.run(send, cwd=shop, env={"BROKER_URL": url}, check=True)
        asyncio.run(_take(url, "shop.dead", 4, "celery"))


async def _declare_slow(url: str) -> None:
    """Nobody serves this queue: what is sent to it expires there."""
    async with await aio_pika.connect(url) as connection:
        channel = await connection.channel()
        dead = await channel.declare_exchange("celery.dead", durable=True)
        await (await channel.declare_queue("shop.dead", durable=True)).bind(dead, "shop")


def _record_dramatiq(server: RabbitServer, python: Path, shop: Path) -> None:
    url = server.virtual_host("dramatiq")
    worker = ["dramatiq", "dramatiq_shop", "--processes", "1", "--threads", "1"]
    with _running([str(python), "-m", *worker], url, shop):
        subprocess.run([str(python), "dramatiq_shop.py"], cwd=shop, env={"BROKER_URL": url}, check=True)
        asyncio.run(_take(url, "shop.XQ", 2, "dramatiq"))


async def _record_plain(url: str) -> None:
    """The deaths that the broker itself knows, of a message that names no software."""
    async with await aio_pika.connect(url) as connection:
        channel = await connection.channel()
        dead = await channel.declare_queue("dead", durable=True)
        for name, more in {
            "rejected": {},
            "expired": {"x-message-ttl": 1},
            "maxlen": {"x-max-length": 1},
            "delivery_limit": {"x-delivery-limit": 0},
        }.items():
            arguments = {
                "x-queue-type": "quorum",
                "x-dead-letter-exchange": "",
                "x-dead-letter-routing-key": "dead",
            }
            await channel.declare_queue(f"orders.{name}", durable=True, arguments={**arguments, **more})
            await _die(channel, name, f"orders.{name}")
            async for letter in _letters(channel, dead.name, 1):
                _write(f"plain-{name}", dead.name, letter)


async def _die(channel: AbstractChannel, name: str, queue: str) -> None:
    headers = {"tenant": "acme", "retries": 3}
    message = aio_pika.Message(b'{"order": 7}', headers=headers, message_id=f"order-{name}", delivery_mode=2)
    for _ in range(2 if name == "maxlen" else 1):
        await channel.default_exchange.publish(message, queue)
    if name in ("rejected", "delivery_limit"):
        async for one in _letters(channel, queue, 1):
            await one.reject(requeue=name == "delivery_limit")


async def _take(url: str, queue: str, count: int, prefix: str) -> None:
    async with await aio_pika.connect(url) as connection:
        channel = await connection.channel()
        async for letter in _letters(channel, queue, count):
            body = letter.body.decode("utf-8", "replace")
            task = str(letter.headers.get("task") or json.loads(body).get("actor_name")).rpartition(".")[2]
            death = letter.headers["x-death"][0]["reason"]
            _write(f"{prefix}-{task}-{death}", queue, letter)


async def _letters(
    channel: AbstractChannel, queue: str, count: int
) -> AsyncIterator[AbstractIncomingMessage]:
    """So many of a queue, each as soon as it is there; acknowledged unless the caller did something else."""
    for attempt in range(int(WAIT_S * 10)):
        try:
            found = await channel.get_queue(queue)
            break
        except aio_pika.exceptions.ChannelNotFoundEntity:
            await channel.reopen()
            await asyncio.sleep(0.1)
            if attempt == WAIT_S * 10 - 1:
                raise
    async with found.iterator(timeout=WAIT_S) as messages:
        for _ in range(count):
            letter = await anext(messages)
            yield letter
            if not letter.processed:
                await letter.ack()


def _write(name: str, queue: str, letter: AbstractIncomingMessage) -> None:
    properties = {key: value for key in PROPERTIES if (value := getattr(letter, key)) is not None}
    document = {
        "queue": queue,
        "exchange": letter.exchange,
        "routingKey": letter.routing_key,
        "properties": _plain(properties),
        "headers": _plain({key: value for key, value in letter.headers.items() if key != "x-delivery-count"}),
        "body": base64.b64encode(_PLACE.sub(b"/srv", letter.body)).decode(),
    }
    (FIXTURES / f"{name}.json").write_text(json.dumps(document, indent=2) + "\n")
    print(f"recorded {name}")


def _plain(value: Any) -> Any:
    match value:
        case dict():
            return {key: _plain(inner) for key, inner in value.items()}
        case list():
            return [_plain(inner) for inner in value]
        case datetime():
            return {"$time": value.timestamp()}
        case bytes() | bytearray():
            return {"$bytes": base64.b64encode(value).decode()}
        case Decimal():
            return {"$decimal": str(value)}
    return value


@contextmanager
def _running(command: list[str], url: str, shop: Path) -> Iterator[None]:
    environment = {"BROKER_URL": url, "PATH": "/usr/bin:/bin", "C_FORCE_ROOT": "1"}
    process = subprocess.Popen(command, cwd=shop, env=environment)
    try:
        yield
    finally:
        process.terminate()
        process.wait(timeout=30)


if __name__ == "__main__":
    main()
