"""Dead letters of Celery and Dramatiq in the office: collected from their queue, shown, and sent back as they
were."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
from typing import Any

import pytest

from redrive.core.letters import DeadLetter
from redrive.core.verdict import Reason
from tests.brokers.apps import RabbitBroker, some_letters
from tests.brokers.test_foreign import FIXTURES, rich
from tests.waiting import wait_until

NAMES = sorted(file.stem for file in FIXTURES.glob("*.json"))


async def collected(broker: RabbitBroker, name: str) -> DeadLetter:
    """The letter that a fixture becomes, once it lies in a dead-letter queue that is collected."""
    document = json.loads((FIXTURES / f"{name}.json").read_text())
    await broker.declare("dead")
    await broker.put("dead", base64.b64decode(document["body"]), **properties(document))
    app = broker.make_app(broker__collect="dead")
    async with app, app.on_duty():
        (letter,) = await some_letters(app, document["headers"]["x-first-death-queue"])
    return letter


def properties(document: Any) -> dict[str, Any]:
    return {**document["properties"], "headers": rich(document["headers"])}


@pytest.mark.parametrize(
    ("name", "reason", "task", "words"),
    [
        ("celery-ship-rejected", Reason.PERMANENT, "shop.ship", "rejected by its consumer (Celery task"),
        ("celery-charge-expired", Reason.EXPIRED, "shop.charge", "expired: "),
        ("celery-refund-rejected", Reason.PERMANENT, "shop.refund", "rejected by its consumer"),
        ("dramatiq-charge-rejected", Reason.PERMANENT, "charge", "ValueError: card visa of order 7 was"),
        ("plain-delivery_limit", Reason.WORKER_LOST, None, "handed out too often"),
    ],
)
async def test_a_letter_has_its_reason_and_what_it_was_to_do(
    broker: RabbitBroker, name: str, reason: Reason, task: str | None, words: str
) -> None:
    letter = await collected(broker, name)
    assert letter.reason is reason
    assert letter.message.headers.get("task") == task
    assert letter.failures[-1].reason.startswith(words)
    assert ("hidden" in letter.message.headers) == ("refund" in name)


async def test_every_recorded_letter_is_listed_and_pickled_bytes_are_shown_as_bytes(
    broker: RabbitBroker,
) -> None:
    await broker.declare("dead")
    for name in NAMES:
        document = json.loads((FIXTURES / f"{name}.json").read_text())
        await broker.put("dead", base64.b64decode(document["body"]), **properties(document))
    app = broker.make_app(broker__collect="dead")
    async with app, app.on_duty():

        async def all_here() -> bool:
            return await app.dead_letters.count() == len(NAMES)

        await wait_until(all_here, 20, "all are collected")
    listed = json.loads(command(broker, "dlq", "list", "--json"))["letters"]
    assert len(listed) == len(NAMES)
    (pickled,) = [one for one in listed if "shop.refund" in json.dumps(one)]
    shown = command(broker, "dlq", "show", pickled["jobId"], "--body")
    assert "pickled body" in shown
    assert "shop.refund" in shown


def command(broker: RabbitBroker, *words: str) -> str:
    """A command on the store of the app that was made last."""
    given = {f"REDRIVE_{name.replace('.', '_').upper()}": str(value) for name, value in broker.given.items()}
    done = subprocess.run(
        [sys.executable, "-m", "redrive", *words],
        env={**os.environ, **given},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


async def test_a_celery_letter_goes_back_as_celery_wrote_it(broker: RabbitBroker) -> None:
    document = json.loads((FIXTURES / "celery-charge-rejected.json").read_text())
    body = base64.b64decode(document["body"])
    await broker.declare("dead")
    await broker.declare("shop")
    await broker.put("dead", body, **properties(document))
    app = broker.make_app(broker__collect="dead")
    async with app, app.on_duty():
        await some_letters(app, "shop")
        await app.dead_letters.redrive("queue:shop")

        async def back() -> bool:
            return await broker.depth("shop") == 1

        await wait_until(back, 20, "it is back")
    found = await broker.take("shop")
    assert found is not None
    assert found[0] == body
    kept = {name: value for name, value in document["headers"].items() if not name.startswith("x-")}
    assert kept.items() <= dict(found[1]).items()
    assert "x-death" not in found[1]


@pytest.mark.parametrize("name", ["Shop:Orders", "shop/orders", "email:send", "a" * 200])
async def test_a_letter_goes_back_to_its_queue_whatever_that_is_called(
    broker: RabbitBroker, name: str
) -> None:
    await broker.declare(name)
    await broker.declare("dead")
    await broker.put("dead", b"{}", message_id="m-1", headers={"amqp-queue": "elsewhere"})
    app = broker.make_app(broker__collect=f"dead={name}")
    async with app, app.on_duty():

        async def is_here() -> bool:
            return await app.dead_letters.count() == 1

        await wait_until(is_here, 20, "it is collected")
        (letter,) = (await app.store.letters(None)).letters
        assert ":" not in letter.message.queue
        assert letter.message.headers["amqp-queue"] == name
        await app.dead_letters.redrive(f"queue:{letter.message.queue}", canary=0)

        async def is_back() -> bool:
            return await broker.depth(name) == 1

        await wait_until(is_back, 20, "it is back")


async def test_a_letter_that_says_it_died_absurdly_often_is_a_letter(broker: RabbitBroker) -> None:
    await broker.declare("dead")
    death = {"queue": "shop", "reason": "rejected", "count": 2**63 - 1}
    await broker.put("dead", b"{}", headers={"x-death": [death, death]})
    app = broker.make_app(broker__collect="dead")
    async with app, app.on_duty():
        (letter,) = await some_letters(app, "shop")
    assert letter.failures[-1].reason == "rejected by its consumer"
