"""Whoever may not reveal cannot test guesses at what is masked either: not by a path, by text, nor by SQL."""

from __future__ import annotations

import httpx

from redrive import Redrive
from tests.conformance.makers import bury, dead, submit, take
from tests.web.admin.asking import DLQ, good
from tests.web.problems import fields, problem

BODY = (
    b'{"order": 7, "at": 1700000000000, "password": "hunter2", "note": "call ana", "keys": {"token": ["t0"]},'
    b' "mail": "ana@customer.example", "paid": "4111 1111 1111 1111", "with": 341111111111111}'
)
WHY = "no mailbox ana@customer.example, token=s3cret"
ROUTES = ("letters", "groups", "shape", "export")
GUESSES = (
    "payload.password:hunter2",
    "-payload.password:hunter2",
    "payload.Pass-Word:x",
    "payload.note:x",
    "payload.keys.token.0:t0",
    "payload.mail:ana@customer.example",
    'payload.paid:"4111 1111 1111 1111"',
    "payload.with:341111111111111",
    "payload.with:341111111111111.0",
    "payload.with:>341111111111110",
    "payload.with:<=341111111111111.5",
    "payload.order:7 payload.order:8,ana@customer.example",
)


async def _bury(app: Redrive) -> str:
    (letter,) = await submit(app.store, 1, body=BODY)
    await bury(app.store, *await take(app.store), why=WHY)
    return letter


async def _found(client: httpx.AsyncClient, text: str) -> int:
    """How many letters the filter finds; every route finds as many."""
    counts = {
        len(good(await client.get(f"{DLQ}/letters", params={"filter": text}))["letters"]),
        sum(
            one["count"] for one in good(await client.get(f"{DLQ}/groups", params={"filter": text}))["groups"]
        ),
        good(await client.get(f"{DLQ}/shape", params={"filter": text}))["total"],
        len((await client.get(f"{DLQ}/export", params={"filter": text})).text.splitlines()),
    }
    (count,) = counts
    return count


async def test_a_filter_on_what_is_masked_needs_the_permission_to_reveal(
    app: Redrive, viewer: httpx.AsyncClient, operator: httpx.AsyncClient
) -> None:
    await _bury(app)
    for text in GUESSES:
        for route in (*ROUTES, "destinations"):
            refused = await viewer.get(f"{DLQ}/{route}", params={"filter": text})
            assert fields(problem(refused, 403, "forbidden")) == [(None, "filter")]
        await _found(operator, text)


async def test_text_is_looked_for_where_the_caller_may_read_it(
    app: Redrive, viewer: httpx.AsyncClient, operator: httpx.AsyncClient
) -> None:
    await _bury(app)
    await dead(app.store)
    for text in ("hunter2", '"call ana"', "ana@cust", "s3cret", "reason:s3c", "reason:ana@customer.example"):
        assert (await _found(viewer, text), await _found(operator, text)) == (0, 1)
        assert await _found(viewer, f"-{text}") == 2
    for text in ("mailbox", "customer.example", "payload.order:7", "payload.at:>1600000000000"):
        assert (await _found(viewer, text), await _found(operator, text)) == (1, 1)
        assert await _found(viewer, f"-{text}") == 1


async def test_the_answer_says_that_payloads_were_not_searched(
    app: Redrive, viewer: httpx.AsyncClient, operator: httpx.AsyncClient
) -> None:
    await _bury(app)
    for route in ("letters", "groups", "shape"):
        address = f"{DLQ}/{route}"
        assert "payload" in good(await viewer.get(address, params={"filter": "mailbox"}))["notice"]
        assert good(await viewer.get(address, params={"filter": "reason:mailbox"}))["notice"] is None
        assert good(await operator.get(address, params={"filter": "mailbox"}))["notice"] is None
    mails = {"queue": "orders", "filter": "mailbox"}
    assert "payload" in good(await viewer.get(f"{DLQ}/destinations", params=mails))["notice"]


async def test_sql_sees_failures_masked_until_they_are_revealed(
    app: Redrive, admin: httpx.AsyncClient
) -> None:
    await _bury(app)
    body = {"sql": "SELECT substr(lastFailureReason, 12), lastFailureReason LIKE '%s3cret%' FROM dlq"}
    assert good(await admin.post(f"{DLQ}/sql", json=body))["rows"] == [["***@customer.example, token=***", 0]]
    (row,) = good(await admin.post(f"{DLQ}/sql?reveal=true", json=body))["rows"]
    assert row == [WHY[11:], 1]


async def test_what_an_operator_asked_for_is_masked_for_those_who_may_not_ask_it(
    app: Redrive, viewer: httpx.AsyncClient, operator: httpx.AsyncClient
) -> None:
    for text, told in (
        ("payload.note:hunter2", "***"),
        ("code:550 reason:ana@customer.example", "code:550 reason:***@customer.example"),
        ("payload.order:7", "payload.order:7"),
    ):
        order = {"kind": "discard", "filter": text}
        where = (await operator.post(f"{DLQ}/operations", json=order)).headers["location"]
        assert good(await viewer.get(where))["filter"] == told
        assert good(await viewer.get(f"{DLQ}/operations?limit=1"))["operations"][0]["filter"] == told
        assert good(await operator.get(where))["filter"] == text


async def test_no_answer_holds_what_is_masked(app: Redrive, viewer: httpx.AsyncClient) -> None:
    letter = await _bury(app)
    for route in (*ROUTES, f"letters/{letter}", f"messages/{letter}", "queues/orders/messages", "status"):
        text = (await viewer.get(f"{DLQ}/{route}")).text
        assert not any(secret in text for secret in ("hunter2", "call ana", "ana@", "s3cret", "4111 1111"))
