"""What a hurried developer hands in: of the wrong type, or a decorator without parentheses. Each is refused
by its name, with what to write."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import pytest

from redrive import ConfigurationError, InvalidMessage, Redrive
from redrive.core.ports import Claim
from tests.engine.conftest import MakeApp


@dataclass
class Measured:
    value: float


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"tenant": 5}, "tenant is of type int: give a text"),
        ({"dedupe": 7}, "dedupe is of type int: give a text"),
        ({"headers": "x"}, "headers is of type str: give a mapping"),
        ({"headers": {"order": 7}}, "header 'order' is of type int: give a text"),
        ({"headers": {7: "order"}}, "a header's name is of type int: give a text"),
        ({"message_id": UUID(int=1)}, "message_id is not a UUID in lower case"),
        ({"at": "2026-11-18T03:00:00Z"}, "at is of type str: give a datetime with a time zone"),
    ],
)
async def test_a_wrong_type_is_refused_by_its_name(app: Redrive, given: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidMessage, match=said):
        await app.submit("orders", {}, **given)


@pytest.mark.parametrize(
    "payload", [{"share": float("nan"), "of": None}, [1.5, (float("-inf"),)], Measured(float("nan"))]
)
async def test_a_number_that_is_not_finite_is_refused_instead_of_becoming_null(
    app: Redrive, payload: object
) -> None:
    with pytest.raises(InvalidMessage, match="NaN and infinity"):
        await app.submit("orders", payload)


async def test_none_and_finite_numbers_are_handed_over_as_they_are(app: Redrive) -> None:
    await app.submit("orders", {"share": 1.5, "of": None, "measured": Measured(2.5)})
    (delivery,) = (await app.store.claim(Claim("orders", "token", 1, 30))).deliveries
    assert json.loads(delivery.message.body) == {"share": 1.5, "of": None, "measured": {"value": 2.5}}


async def test_what_is_no_mail_is_refused_as_one(app: Redrive) -> None:
    with pytest.raises(InvalidMessage, match="is of type str: give a Mail or an EmailMessage"):
        await app.mail.submit("Hello", tenant="acme")  # type: ignore[arg-type]


async def test_a_queue_that_is_not_a_text_is_refused(app: Redrive) -> None:
    with pytest.raises(InvalidMessage, match="queue is of type int: give a text"):
        await app.submit(5, {})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"concurrency": "5"}, "concurrency is of type str: give a whole number"),
        ({"concurrency": True}, "concurrency is of type bool: give a whole number"),
        ({"rate": 5}, "rate 5 cannot be read: write 100/min, 20/s or 5000/hour"),
        ({"retry": 5}, r"retry is of type int: give a policy, as in RetryPolicy\(attempts=8\)"),
    ],
)
def test_a_handler_of_wrong_types_is_refused_by_name(
    make_app: MakeApp, given: dict[str, Any], said: str
) -> None:
    with pytest.raises(ConfigurationError, match=said):
        make_app().handler("orders", **given)(lambda order: None)


@pytest.mark.parametrize(("decorator", "example"), [("on_dead", "tell"), ("on", "dead")])
def test_every_bare_decorator_says_how_to_write_it(make_app: MakeApp, decorator: str, example: str) -> None:
    async def tell(letter: object) -> None: ...

    said = rf'write @app\.{decorator}\("{example}"\) above tell, not @app\.{decorator} alone'
    with pytest.raises(ConfigurationError, match=said):
        getattr(make_app(), decorator)(tell)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"rate": 20}, "rate 20 cannot be read: write 100/min, 20/s"),
        ({"canary": "5"}, "canary is '5': 0 to 500 letters"),
        ({"canary": -1}, "canary is -1: 0 to 500 letters"),
    ],
)
async def test_a_redrive_of_wrong_types_is_refused_by_name(
    app: Redrive, given: dict[str, Any], said: str
) -> None:
    with pytest.raises(ConfigurationError, match=said):
        await app.dead_letters.redrive("code:504", **given)


async def test_an_unknown_kind_of_group_is_refused_with_those_there_are(app: Redrive) -> None:
    with pytest.raises(ConfigurationError, match="by is 'kind': use one of fingerprint, code, reason"):
        await app.dead_letters.groups(by="kind")
