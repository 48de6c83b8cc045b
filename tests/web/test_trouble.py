"""When something is wrong on our side: honest answers, nothing told that is not the client's."""

from __future__ import annotations

import logging

import httpx
import pytest

from redrive import Redrive
from redrive.core.errors import StoreFull, StoreUnavailable
from redrive.mail.desk import MailStatus
from redrive.office.access import Access, Role
from redrive.web.server import serve
from tests.web.conftest import MAIL
from tests.web.problems import problem


class BrokenDesk:
    """A desk that raises what it is told to."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    async def now(self) -> int:
        raise self._error

    async def find(self, mail_id: str) -> MailStatus | None:
        raise self._error


async def _ask(app: Redrive, access: Access, error: Exception) -> httpx.Response:
    _, key = await access.create(Role.SUBMIT, "acme")
    headers = {"Authorization": f"Bearer {key}"}
    async with (
        serve(app, "127.0.0.1:0", mail=BrokenDesk(error)) as server,
        httpx.AsyncClient(base_url=server.url, headers=headers, timeout=60) as client,
    ):
        return await client.post("/v1/emails", json=MAIL)


async def test_a_store_that_is_gone_is_unavailable_on_every_route(
    app: Redrive, acme: httpx.AsyncClient
) -> None:
    await app.store.close()
    for method, path in (
        ("POST", "/v1/emails"),
        ("POST", "/v1/emails/batch"),
        ("POST", "/v1/queues/orders/messages"),
        ("GET", "/v1/emails/nobody"),
        ("GET", "/health/outbox"),
        ("GET", "/metrics"),
    ):
        response = await acme.request(method, path, json={})
        problem(response, 503, "unavailable")
        assert int(response.headers["retry-after"]) >= 1


@pytest.mark.parametrize(
    ("error", "word"),
    [
        (StoreUnavailable("/var/lib/redrive.db does not answer"), "may or may not"),
        (StoreFull("full"), "room"),
    ],
)
async def test_a_submit_that_the_store_cannot_take_says_to_come_again(
    app: Redrive, access: Access, error: Exception, word: str, caplog: pytest.LogCaptureFixture
) -> None:
    response = await _ask(app, access, error)
    document = problem(response, 503, "unavailable")
    assert word in document["detail"]
    assert int(response.headers["retry-after"]) >= 1
    assert "/var/lib" not in response.text
    (record,) = [one for one in caplog.records if one.name == "redrive.web"]
    assert record.__dict__["fields"]["instance"] == document["instance"]


async def test_an_unexpected_error_is_told_in_the_log_alone(
    app: Redrive, access: Access, caplog: pytest.LogCaptureFixture
) -> None:
    response = await _ask(app, access, ZeroDivisionError("secret ana@customer.example"))
    document = problem(response, 500, "unexpected")
    assert "secret" not in response.text
    (record,) = [one for one in caplog.records if one.name == "redrive.web"]
    assert record.levelno == logging.ERROR
    assert record.exc_info is not None
    assert record.__dict__["fields"]["instance"] == document["instance"]
    assert "ana@" not in record.__dict__["fields"]["error"]


@pytest.mark.parametrize("path", ["/v1", "/v1/emails/", "/v1/emails/a/b", "/docs/x", "/static/docs.css"])
def test_an_unknown_address_is_not_found(visitor: httpx.Client, path: str) -> None:
    problem(visitor.get(path), 404, "not-found")


def test_another_method_is_named_and_refused(visitor: httpx.Client) -> None:
    for method in ("PUT", "DELETE", "OPTIONS", "PATCH"):
        response = visitor.request(method, "/v1/emails")
        problem(response, 405, "method-not-allowed")
        assert response.headers["allow"] == "POST"


@pytest.mark.parametrize("path", ["/health/live", "/v1/emails/x", "/nowhere", "/docs", "/openapi.json"])
def test_every_answer_carries_the_safe_headers(visitor: httpx.Client, path: str) -> None:
    headers = (visitor.get(path, headers={"Origin": "https://evil.example"})).headers
    assert headers["cache-control"] == "no-store"
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["content-security-policy"].startswith("default-src 'none'; script-src 'self'")
    assert "frame-ancestors 'none'" in headers["content-security-policy"]
    assert "server" not in headers
    assert not any(name.startswith("access-control") for name in headers)
