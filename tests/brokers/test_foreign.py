"""Dead letters of other software, as real runs of it left them on a real broker (foreign/record.py)."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redrive.brokers.rabbitmq.foreign import ForeignLetter, read_foreign

FIXTURES = Path(__file__).parent / "fixtures"


@dataclass(frozen=True)
class Properties:
    content_type: str | None = None
    content_encoding: str | None = None
    message_id: str | None = None
    correlation_id: str | None = None


def rich(value: Any) -> Any:
    match value:
        case {"$time": stamp}:
            return datetime.fromtimestamp(stamp, UTC)
        case {"$bytes": packed}:
            return base64.b64decode(packed)
        case dict():
            return {key: rich(inner) for key, inner in value.items()}
        case list():
            return [rich(inner) for inner in value]
    return value


def letter(name: str) -> ForeignLetter:
    document = json.loads((FIXTURES / f"{name}.json").read_text())
    found = {key: document["properties"].get(key) for key in Properties.__dataclass_fields__}
    return read_foreign(rich(document["headers"]), Properties(**found), base64.b64decode(document["body"]))


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("rejected", "rejected by its consumer"),
        ("expired", "expired: its time to live in the queue ended"),
        ("maxlen", "dropped from the head of a full queue"),
        ("delivery_limit", "handed out too often: its consumers were lost"),
    ],
)
def test_what_the_broker_knows_of_a_death_is_said_in_words(name: str, reason: str) -> None:
    found = letter(f"plain-{name}")
    assert (found.reason, found.death, found.origin) == (reason, name, f"orders.{name}")
    assert (found.id, found.payload, found.hidden) == (f"order-{name}", {"order": 7}, None)
    assert found.died_at is not None
    assert found.software is None


def test_a_celery_task_has_its_name_its_arguments_and_its_attempts() -> None:
    found = letter("celery-ship-rejected")
    assert found.software == "celery"
    assert found.task == "shop.ship"
    assert found.origin == "shop"
    assert found.attempts == 2
    assert found.payload == {"task": "shop.ship", "args": [9], "kwargs": {}}
    assert found.reason == "rejected by its consumer (Celery task shop.ship)"
    assert letter("celery-charge-rejected").payload == {
        "task": "shop.charge",
        "args": [7],
        "kwargs": {"card": "visa"},
    }


def test_a_celery_task_that_expired_says_so() -> None:
    found = letter("celery-charge-expired")
    assert (found.origin, found.death) == ("shop.slow", "expired")
    assert found.reason.startswith("expired: ")


def test_a_pickled_body_is_not_read_and_says_why() -> None:
    found = letter("celery-refund-rejected")
    assert found.task == "shop.refund"
    assert found.payload is None
    assert found.hidden is not None
    assert "pickled" in found.hidden


def test_a_dramatiq_letter_has_its_failure_and_the_queue_it_came_from() -> None:
    found = letter("dramatiq-charge-rejected")
    assert found.software == "dramatiq"
    assert found.task == "charge"
    assert found.origin == "shop"
    assert found.attempts == 2
    assert found.reason == "ValueError: card visa of order 7 was declined"
    assert found.payload == {"actor": "charge", "args": [7], "kwargs": {"card": "visa"}}
    assert found.traceback is not None
    assert found.traceback.startswith("Traceback (most recent call last)")
    assert letter("dramatiq-ship-rejected").attempts == 1


@pytest.mark.parametrize("queue", ["shop.XQ", "shop.DQ", "shop"])
def test_dramatiqs_own_queues_belong_to_the_one_they_are_named_after(queue: str) -> None:
    body = {"queue_name": queue, "actor_name": "charge", "message_id": "1", "options": {}}
    found = read_foreign({}, Properties(), json.dumps(body).encode())
    assert (found.origin, found.reason) == (
        "shop",
        "found in a dead-letter queue; nothing says why (Dramatiq actor charge)",
    )


def test_a_compressed_body_and_one_that_is_no_text_say_why_they_are_hidden() -> None:
    compressed = read_foreign({"compression": "application/x-gzip"}, Properties(), b"\x1f\x8b")
    assert "compressed" in str(compressed.hidden)
    assert "neither JSON nor text (image/png)" in str(
        read_foreign({}, Properties("image/png"), b"\x89PNG\xff").hidden
    )
    assert read_foreign({}, Properties(), b"plain words").payload == "plain words"


DEATHS = [
    [{"reason": 1, "queue": 2, "count": "3", "time": 4}],
    [{"reason": "rejected", "count": -1}],
    [None],
]
JUNK = st.sampled_from(
    [
        None,
        True,
        -1,
        2**70,
        0.5,
        "",
        "word",
        b"\xff",
        datetime(2026, 1, 1, tzinfo=UTC),
        [],
        {"a": [1]},
        *DEATHS,
    ]
)
KNOWN = st.sampled_from(["x-death", "task", "id", "retries", "x-first-death-queue", "compression"])
WRITTEN = st.sampled_from(
    [b"{}", b"[]", b"[[],{},{}]", b'{"actor_name":1,"queue_name":2,"message_id":3,"options":4}']
)


@given(
    st.dictionaries(KNOWN, JUNK), st.builds(Properties, *[st.none() | st.text()] * 4), WRITTEN | st.binary()
)
def test_whatever_a_letter_holds_it_has_an_answer(
    headers: dict[str, Any], properties: Properties, body: bytes
) -> None:
    found = read_foreign(headers, properties, body)
    assert found.reason
    assert found.attempts >= 1
