"""Messages for any queue over HTTP."""

from __future__ import annotations

import httpx
import pytest

from redrive import Redrive
from redrive.core.message import Track
from redrive.testing import run_until_idle
from tests.web.problems import problem

ORDERS = "/v1/queues/orders/messages"


async def test_a_message_reaches_its_handler(app: Redrive, acme: httpx.AsyncClient) -> None:
    seen: list[object] = []

    @app.handler("orders")
    async def handle(payload: object) -> None:
        seen.append(payload)

    response = await acme.post(ORDERS, json={"payload": {"number": 7}})
    assert response.status_code == 202
    assert response.json()["status"] == "accepted"
    assert (await run_until_idle(app))["done"] == 1
    assert seen == [{"number": 7}]


async def test_every_field_is_kept_and_the_tenant_is_the_keys(app: Redrive, acme: httpx.AsyncClient) -> None:
    message = {
        "payload": None,
        "delay": 60,
        "ttl": 90.5,
        "dedupe": "order-7",
        "track": "bulk",
        "headers": {"source": "shop"},
    }
    response = await acme.post("/v1/queues/a:b.c-d_e/messages", json=message)
    assert response.status_code == 202, response.text
    account = await app.store.get(response.json()["id"])
    assert account is not None
    stored, progress = account.message, account.progress
    assert (stored.queue, stored.tenant, stored.track) == ("a:b.c-d_e", "acme", Track.BULK)
    assert (stored.dedupe, dict(stored.headers), stored.body) == ("order-7", {"source": "shop"}, b"null")
    assert progress.due_at - stored.enqueued_at == 60_000
    assert progress.expires_at - progress.due_at == 90_500


@pytest.mark.parametrize(
    "payload", ["1.10", "123456789012345678901234567890", '{"b": 1,  "a": [ ]}', r'"\u00e9\u0000"', '"é"']
)
async def test_a_payload_is_kept_byte_for_byte(app: Redrive, acme: httpx.AsyncClient, payload: str) -> None:
    body = f'{{"payload": {payload}}}'
    response = await acme.post(ORDERS, content=body, headers={"Content-Type": "application/json"})
    account = await app.store.get(response.json()["id"])
    assert account is not None
    assert account.message.body.decode() == payload


async def test_a_list_is_accepted_together_in_order(app: Redrive, acme: httpx.AsyncClient) -> None:
    response = await acme.post(ORDERS, json=[{"payload": number} for number in range(1_000)])
    assert response.status_code == 202
    ids = [one["id"] for one in response.json()["messages"]]
    last = await app.store.get(ids[-1])
    assert last is not None
    assert last.message.body == b"999"
    problem(await acme.post(ORDERS, json=[{"payload": 1}] * 1_001), 422, "invalid")


async def test_a_payload_of_32_levels_is_taken(acme: httpx.AsyncClient) -> None:
    body = '{"payload": ' + "[" * 32 + "]" * 32 + "}"
    response = await acme.post(ORDERS, content=body, headers={"Content-Type": "application/json"})
    assert response.status_code == 202


async def test_a_dedupe_key_answers_with_the_first_id(
    acme: httpx.AsyncClient, globex: httpx.AsyncClient
) -> None:
    message = {"payload": 1, "dedupe": "order-7"}
    first = await acme.post(ORDERS, json=message)
    again = await acme.post(ORDERS, json=message)
    assert again.json() == {"id": first.json()["id"], "status": "duplicate"}
    assert "idempotent-replayed" not in again.headers
    other = await acme.post(ORDERS, json=message | {"payload": 2})
    assert first.json()["id"] in problem(other, 409, "conflict")["detail"]
    assert (await globex.post(ORDERS, json=message)).json()["status"] == "accepted"


async def test_a_conflict_in_a_list_accepts_none(app: Redrive, acme: httpx.AsyncClient) -> None:
    await acme.post(ORDERS, json={"payload": 1, "dedupe": "order-7"})
    listed = [{"payload": 5}, {"payload": 2, "dedupe": "order-7"}]
    problem(await acme.post(ORDERS, json=listed), 409, "conflict")
    (counts,) = await app.store.queues()
    assert counts.pending == 1
