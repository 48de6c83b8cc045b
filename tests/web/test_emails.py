"""Mails over HTTP: accepted durably, and followed to each recipient's end."""

from __future__ import annotations

import re

import httpx
import pytest

from redrive import Permanent, Redrive, RetryPolicy, Temporary, Uncertain
from redrive.core.ports import Claim
from redrive.mail.stored import QUEUE
from redrive.office.access import Role
from redrive.testing import run_until_idle
from tests.web.conftest import MAIL, Login
from tests.web.problems import fields, problem

LATE = RetryPolicy(base_s=3_600.0, cap_s=3_600.0)
"""However slow this machine is, the second attempt is still to come."""


async def test_a_mail_is_stored_before_it_is_answered(app: Redrive, acme: httpx.AsyncClient) -> None:
    response = await acme.post("/v1/emails", json=MAIL)
    assert response.status_code == 202
    answer = response.json()
    assert answer == {"id": answer["id"], "status": "accepted", "recipients": ["ana@customer.example"]}
    assert response.headers["location"] == f"/v1/emails/{answer['id']}"
    account = await app.store.get(answer["id"])
    assert account is not None
    assert (account.message.tenant, account.message.queue) == ("acme", QUEUE)


async def test_every_field_of_a_mail_is_taken(acme: httpx.AsyncClient) -> None:
    full = MAIL | {
        "to": ["Ana <ana@customer.example>", "bo@customer.example"],
        "cc": ["cy@customer.example", "ana@customer.example"],
        "bcc": "dan@customer.example",
        "replyTo": "help@shop.example",
        "html": "<p>It is on its way.</p>",
        "headers": {"X-Order": "7"},
        "attachments": [{"filename": "bill.txt", "content": "aGVsbG8=", "contentType": "text/plain"}],
        "listUnsubscribe": "https://shop.example/stop",
        "tags": ["order"],
        "ttl": 60.5,
    }
    response = await acme.post("/v1/emails", json=full)
    assert response.status_code == 202, response.text
    names = ["ana", "bo", "cy", "dan"]
    assert response.json()["recipients"] == [f"{name}@customer.example" for name in names]
    status = (await acme.get(response.headers["location"])).json()
    assert [one["address"] for one in status["recipients"]] == response.json()["recipients"]


async def test_the_time_to_live_counts_from_the_submit(app: Redrive, acme: httpx.AsyncClient) -> None:
    response = await acme.post("/v1/emails", json=MAIL | {"ttl": 60})
    account = await app.store.get(response.json()["id"])
    assert account is not None
    assert account.progress.expires_at - account.message.enqueued_at == 60_000


async def test_a_batch_is_accepted_in_order(app: Redrive, acme: httpx.AsyncClient) -> None:
    mails = [MAIL | {"to": f"{name}@customer.example"} for name in ("ana", "bo", "cy")]
    response = await acme.post("/v1/emails/batch", json={"emails": mails})
    assert response.status_code == 202
    accepted = response.json()["emails"]
    assert [one["recipients"] for one in accepted] == [[mail["to"]] for mail in mails]
    for one in accepted:
        assert await app.store.get(one["id"]) is not None


@pytest.mark.parametrize(
    ("raised", "status", "result"),
    [
        (None, "sent", "sent"),
        (Temporary("busy", code="450"), "retrying", "temporary"),
        (Permanent("no such user", code="550", scope="recipient"), "failed", "permanent"),
        (Uncertain("the line went dead"), "retrying", "uncertain"),
    ],
)
async def test_each_attempt_is_shown_with_how_it_ended(
    app: Redrive, acme: httpx.AsyncClient, raised: Exception | None, status: str, result: str
) -> None:
    async def send(payload: object) -> None:
        if raised is not None:
            raise raised

    app.handler(QUEUE, retry=LATE)(send)
    submitted = await acme.post("/v1/emails", json=MAIL)
    await run_until_idle(app)
    (recipient,) = (await acme.get(submitted.headers["location"])).json()["recipients"]
    assert recipient["status"] == status
    (attempt,) = recipient["attempts"]
    assert (attempt["attempt"], attempt["result"]) == (1, result)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", attempt["timestamp"])
    assert attempt["reason"] == (None if raised is None else str(raised))
    assert (recipient["nextAttemptAt"] is None) == (status != "retrying")


async def test_a_mail_is_queued_and_then_sending(app: Redrive, acme: httpx.AsyncClient) -> None:
    submitted = await acme.post("/v1/emails", json=MAIL)

    async def status() -> str:
        answer = await acme.get(submitted.headers["location"])
        return str(answer.json()["recipients"][0]["status"])

    assert await status() == "queued"
    await app.store.claim(Claim(QUEUE, "token", 1, 30.0))
    assert await status() == "sending"


async def test_a_mail_of_another_tenant_does_not_exist(
    acme: httpx.AsyncClient, globex: httpx.AsyncClient, viewer: httpx.AsyncClient, login: Login
) -> None:
    location = (await acme.post("/v1/emails", json=MAIL)).headers["location"]
    problem(await globex.get(location), 404, "not-found")
    problem(await (await login(Role.VIEWER, "globex")).get(location), 404, "not-found")
    assert (await viewer.get(location)).status_code == 200
    assert (await (await login(Role.VIEWER, "acme")).get(location)).status_code == 200


@pytest.mark.parametrize("mail_id", ["nobody", "%00", "..", "0" * 5_000, "%F0%9F%92%8C"])
async def test_an_unknown_mail_is_not_found(acme: httpx.AsyncClient, mail_id: str) -> None:
    problem(await acme.get(f"/v1/emails/{mail_id}"), 404, "not-found")


async def test_a_message_of_another_queue_is_no_mail(acme: httpx.AsyncClient) -> None:
    message = await acme.post("/v1/queues/orders/messages", json={"payload": 1})
    problem(await acme.get(f"/v1/emails/{message.json()['id']}"), 404, "not-found")


async def test_a_batch_with_bad_mails_lists_each_and_accepts_none(
    app: Redrive, acme: httpx.AsyncClient
) -> None:
    bad = [MAIL, MAIL | {"to": "nowhere"}, MAIL | {"from": 7}, MAIL | {"color": "red"}, {}, 3, MAIL]
    document = problem(await acme.post("/v1/emails/batch", json={"emails": bad}), 422, "invalid")
    assert fields(document) == [(1, "to"), (2, "from"), (3, "color"), (4, ""), (5, "")]
    checked = [MAIL | {"to": "nowhere", "subject": "a\nb"}, MAIL, MAIL | {"cc": ["ok@a.example", "no"]}]
    document = problem(await acme.post("/v1/emails/batch", json={"emails": checked}), 422, "invalid")
    assert fields(document) == [(0, "to"), (0, "subject"), (2, "cc[1]")]
    assert await app.store.queues() == []


@pytest.mark.parametrize("count", [0, 1_001])
async def test_a_batch_has_1_to_1000_mails(acme: httpx.AsyncClient, count: int) -> None:
    response = await acme.post("/v1/emails/batch", json={"emails": [MAIL] * count})
    assert "1,000" in problem(response, 422, "invalid")["detail"]


async def test_a_batch_of_1000_is_one_answer(acme: httpx.AsyncClient) -> None:
    response = await acme.post("/v1/emails/batch", json={"emails": [MAIL] * 1_000})
    assert response.status_code == 202
    assert len({one["id"] for one in response.json()["emails"]}) == 1_000


async def test_a_large_attachment_is_taken(app: Redrive, acme: httpx.AsyncClient) -> None:
    attached = {"filename": "film.bin", "content": "aGVs" * 3_000_000}
    response = await acme.post("/v1/emails", json=MAIL | {"attachments": [attached]}, timeout=60)
    assert response.status_code == 202, response.text
    account = await app.store.get(response.json()["id"])
    assert account is not None
    assert len(account.message.body) > 12_000_000
