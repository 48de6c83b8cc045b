"""Starting an operation again after its answer was lost: one Idempotency-Key, one operation."""

from __future__ import annotations

import asyncio

import httpx
import pytest

from redrive import Redrive
from tests.conformance.makers import dead
from tests.web.admin.asking import DLQ, ended, good
from tests.web.problems import problem

KEY = {"Idempotency-Key": "incident 7, first try"}


async def _started(client: httpx.AsyncClient) -> int:
    return len(good(await client.get(f"{DLQ}/operations"))["operations"])


@pytest.mark.usefixtures("on_duty")
async def test_the_same_request_again_is_answered_with_the_first_ones_operation(
    app: Redrive, operator: httpx.AsyncClient
) -> None:
    await dead(app.store, 3)
    for path, order in (
        ("queues/orders/re-drive", {"limit": 1}),
        ("operations", {"kind": "discard", "filter": "queue:orders", "limit": 1}),
    ):
        headers = {"Idempotency-Key": path}
        first = await operator.post(f"{DLQ}/{path}", json=order, headers=headers)
        assert (await ended(operator, first))["moved"] == 1
        again = await operator.post(f"{DLQ}/{path}", json=order, headers=headers)
        assert good(again, 202)["id"] == first.json()["id"]
        assert again.headers["location"] == first.headers["location"]
        assert "idempotent-replayed" not in first.headers
        assert again.headers["idempotent-replayed"] == "true"
    assert await _started(operator) == 2
    without = await operator.post(f"{DLQ}/queues/orders/re-drive", json={"limit": 1})
    assert (await ended(operator, without))["moved"] == 1


async def test_ten_tries_at_once_start_one_operation(operator: httpx.AsyncClient) -> None:
    order = {"kind": "redrive", "all": True}
    answers = await asyncio.gather(
        *(operator.post(f"{DLQ}/operations", json=order, headers=KEY) for _ in range(10))
    )
    assert {good(one, 202)["id"] for one in answers} == {answers[0].json()["id"]}
    assert await _started(operator) == 1


@pytest.mark.usefixtures("on_duty")
async def test_an_edit_is_repeated_although_its_letter_has_gone(
    app: Redrive, operator: httpx.AsyncClient
) -> None:
    (letter,) = await dead(app.store)
    url, headers = f"{DLQ}/letters/{letter}/edit", KEY | {"If-Match": '"0"'}
    first = await operator.post(url, json={"payload": {"order": 8}}, headers=headers)
    assert (await ended(operator, first))["moved"] == 1
    again = await operator.post(url, json={"payload": {"order": 8}}, headers=headers)
    assert good(again, 202)["id"] == first.json()["id"]


async def test_a_key_belongs_to_one_request_of_one_caller(
    app: Redrive, operator: httpx.AsyncClient, acme_operator: httpx.AsyncClient
) -> None:
    await dead(app.store)
    order = {"kind": "redrive", "all": True}
    first = good(await operator.post(f"{DLQ}/operations", json=order, headers=KEY), 202)
    other = order | {"kind": "discard"}
    problem(await operator.post(f"{DLQ}/operations", json=other, headers=KEY), 422, "idempotency-key-reused")
    elsewhere = await operator.post(f"{DLQ}/queues/orders/re-drive", json={"limit": 1}, headers=KEY)
    problem(elsewhere, 422, "idempotency-key-reused")
    theirs = good(await acme_operator.post(f"{DLQ}/operations", json=order, headers=KEY), 202)
    assert theirs["id"] != first["id"]
    problem(
        await operator.post(f"{DLQ}/operations", json=order, headers={"Idempotency-Key": ""}), 422, "invalid"
    )


async def test_a_key_is_not_used_up_by_a_request_that_was_refused_or_a_dry_run(
    app: Redrive, operator: httpx.AsyncClient
) -> None:
    await dead(app.store)
    wrong = {"kind": "redrive", "filter": "oops:1"}
    problem(await operator.post(f"{DLQ}/operations", json=wrong, headers=KEY), 400, "bad-query")
    order = {"kind": "redrive", "all": True}
    good(await operator.post(f"{DLQ}/operations?dryRun=true", json=order, headers=KEY))
    assert (
        "idempotent-replayed"
        not in (await operator.post(f"{DLQ}/operations", json=order, headers=KEY)).headers
    )
    assert await _started(operator) == 1
