"""Idempotency-Key: a request that is repeated is accepted once."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest

from redrive import Redrive
from redrive.mail.stored import QUEUE
from redrive.testing import run_until_idle
from tests.web.conftest import MAIL
from tests.web.problems import fields, problem

ORDERS = "/v1/queues/orders/messages"
KEY = {"Idempotency-Key": "order-7"}
REQUESTS: list[tuple[str, Any, Any]] = [
    ("/v1/emails", MAIL, MAIL | {"subject": "Another"}),
    ("/v1/emails/batch", {"emails": [MAIL, MAIL]}, {"emails": [MAIL, MAIL, MAIL]}),
    ("/v1/emails/batch", {"emails": [MAIL, MAIL]}, {"emails": [MAIL]}),
    (ORDERS, {"payload": 1}, {"payload": 2}),
    (ORDERS, [{"payload": 1}, {"payload": 2}], [{"payload": 1}, {"payload": 3}]),
    (ORDERS, [{"payload": 1}, {"payload": 2}], [{"payload": 1}]),
    (ORDERS, {"payload": 1}, [{"payload": 1}]),
]


def _ids(response: httpx.Response) -> list[str]:
    document = response.json()
    listed = document.get("emails") or document.get("messages") or [document]
    return [one["id"] for one in listed]


@pytest.mark.parametrize(("path", "body", "_other"), REQUESTS)
async def test_a_repeat_is_answered_with_the_first_ids(
    app: Redrive, acme: httpx.AsyncClient, path: str, body: Any, _other: Any
) -> None:
    first = await acme.post(path, json=body, headers=KEY)
    again = await acme.post(path, json=body, headers=KEY)
    assert (first.status_code, again.status_code) == (202, 202), again.text
    assert _ids(again) == _ids(first)
    assert first.headers.get("location") == again.headers.get("location")
    assert "idempotent-replayed" not in first.headers
    assert again.headers["idempotent-replayed"] == "true"
    (counts,) = await app.store.queues()
    assert counts.pending == len(_ids(first))


@pytest.mark.parametrize(("path", "body", "other"), REQUESTS)
async def test_the_key_with_another_body_is_refused(
    app: Redrive, acme: httpx.AsyncClient, path: str, body: Any, other: Any
) -> None:
    first = await acme.post(path, json=body, headers=KEY)
    problem(await acme.post(path, json=other, headers=KEY), 422, "idempotency-key-reused")
    (counts,) = await app.store.queues()
    assert counts.pending == len(_ids(first))


async def test_a_key_is_its_tenants_own(acme: httpx.AsyncClient, globex: httpx.AsyncClient) -> None:
    first = await acme.post("/v1/emails", json=MAIL, headers=KEY)
    other = await globex.post("/v1/emails", json=MAIL, headers=KEY)
    assert _ids(first) != _ids(other)
    assert "idempotent-replayed" not in other.headers


async def test_repeats_at_the_same_time_are_accepted_once(app: Redrive, acme: httpx.AsyncClient) -> None:
    answers = await asyncio.gather(*(acme.post("/v1/emails", json=MAIL, headers=KEY) for _ in range(10)))
    assert len({answer.json()["id"] for answer in answers}) == 1
    (counts,) = await app.store.queues()
    assert counts.pending == 1


async def test_a_repeat_after_the_mail_was_sent_sends_no_other(app: Redrive, acme: httpx.AsyncClient) -> None:
    @app.handler(QUEUE)
    async def send(payload: object) -> None:
        """The relay took it."""

    first = await acme.post("/v1/emails", json=MAIL, headers=KEY)
    assert (await run_until_idle(app))["done"] == 1
    again = await acme.post("/v1/emails", json=MAIL, headers=KEY)
    assert _ids(again) == _ids(first)
    assert not await run_until_idle(app)


@pytest.mark.parametrize("key", ["", "x" * 256, "käse", "a\tb"])
async def test_a_key_that_cannot_be_used_is_refused(acme: httpx.AsyncClient, key: str) -> None:
    response = await acme.post("/v1/emails", json=MAIL, headers={"Idempotency-Key": key.encode()})
    assert fields(problem(response, 422, "invalid")) == [(None, "Idempotency-Key")]


async def test_dedupe_and_the_key_together_are_refused(acme: httpx.AsyncClient) -> None:
    response = await acme.post(ORDERS, json={"payload": 1, "dedupe": "a"}, headers=KEY)
    assert fields(problem(response, 422, "invalid")) == [(None, "dedupe")]
