"""Uploaded files on RabbitMQ: a command comes in, events go to everyone who asked for them.

While a file named scanner-is-down lies here, validation fails: it is tried three times, parked as a dead
letter, and comes back by `redrive dlq redrive`. Only q.validator sees that. Every handler notes in seen/ what
it received.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TypedDict

from redrive import Delivery, Redrive, Temporary

HERE = Path(__file__).parent
SCANNER_IS_DOWN = HERE / "scanner-is-down"

app = Redrive("amqp://guest:guest@localhost/")


class File(TypedDict):
    name: str


@app.handler("q.upload.commands")
async def upload(file: File, delivery: Delivery) -> None:
    note(delivery)
    await publish("files.uploaded", file, delivery)


@app.handler("q.validator")
async def validate(file: File, delivery: Delivery) -> None:
    note(delivery)
    if SCANNER_IS_DOWN.exists():
        raise Temporary("the virus scanner does not answer", code="scanner")
    if file["name"].endswith(".exe"):
        await publish("files.rejected", file, delivery)
    else:
        await publish("files.validated", file, delivery)


@app.handler("q.thumbnail")
async def thumbnail(file: File, delivery: Delivery) -> None:
    note(delivery)
    await publish("processing.thumbnail", file, delivery)


@app.handler("q.extractor")
async def extract(file: File, delivery: Delivery) -> None:
    note(delivery)
    await publish("processing.text", file, delivery)


@app.handler("q.projection")
async def project(file: File, delivery: Delivery) -> None:
    note(delivery)


@app.handler("q.notification")
async def notify(file: File, delivery: Delivery) -> None:
    note(delivery)


@app.handler("q.audit")
async def audit(file: File, delivery: Delivery) -> None:
    note(delivery)


async def publish(event: str, file: File, cause: Delivery) -> None:
    """Tell everyone. An attempt that is repeated publishes nothing twice: the key is that of its cause."""
    kind = file["name"].rpartition(".")[2]
    headers = {"routing-key": f"{event}.{kind}", "correlation-id": correlation(cause), "message-type": event}
    await app.submit("domain.events", file, headers=headers, dedupe=f"{cause.message.id} {event}")


def correlation(delivery: Delivery) -> str:
    """What all that follows from one upload has in common."""
    return delivery.message.headers.get("correlation-id", delivery.message.id)


def note(delivery: Delivery) -> None:
    """One line a delivery, in a file a queue."""
    message = delivery.message
    line = {
        "key": message.headers.get("routing-key"),
        "attempt": delivery.progress.attempts,
        "id": message.id,
    }
    seen = HERE / "seen"
    seen.mkdir(exist_ok=True)
    with (seen / f"{message.queue}.jsonl").open("a") as file:
        file.write(json.dumps(line) + "\n")
