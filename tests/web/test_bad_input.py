"""Input that cannot be accepted: a clear problem that names the field, and nothing stored."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from redrive.office.access import Role
from tests.web.background import Served
from tests.web.conftest import MAIL
from tests.web.problems import fields, problem

JSON = {"Content-Type": "application/json"}
ORDERS = "/v1/queues/orders/messages"
BREAKS = ["\r\nBcc: spy@evil.example", "\n", "\r", "\0", "\x1b[2J", "\x85"]
PLACES: list[tuple[str, str, Any]] = [
    ("from", "from", "shop@shop.example{}"),
    ("from", "from", "Shop {} <shop@shop.example>"),
    ("to", "to", "ana{}@customer.example"),
    ("to[1]", "to", ["ok@customer.example", "Ana{} <ana@customer.example>"]),
    ("cc[0]", "cc", ["ana@customer.example{}"]),
    ("bcc", "bcc", "{}ana@customer.example"),
    ("replyTo", "replyTo", "ana@customer.example{}"),
    ("subject", "subject", "Your {} order"),
    ("headers[0]", "headers", {"X-Order{}": "7"}),
    ("headers.X-Order", "headers", {"X-Order": "7{}8"}),
    ("attachments[0].filename", "attachments", [{"filename": "a{}b.txt", "content": ""}]),
    ("attachments[0].contentType", "attachments", [{"filename": "a", "content": "", "contentType": "a/b{}"}]),
    ("attachments[0].contentId", "attachments", [{"filename": "a", "content": "", "contentId": "a{}b"}]),
    ("listUnsubscribe[0]", "listUnsubscribe", ["https://shop.example/{}"]),
    ("tags[0]", "tags", ["a{}b"]),
]


@pytest.fixture(autouse=True)
def _nothing_is_stored(served: Served) -> Iterator[None]:
    yield
    with served.client(Role.VIEWER) as viewer:
        assert set(viewer.get("/health/outbox").json()["metrics"].values()) == {0}


def _broken(value: Any, text: str) -> Any:
    if isinstance(value, str):
        return value.replace("{}", text)
    if isinstance(value, list):
        return [_broken(one, text) for one in value]
    return {_broken(name, text): _broken(one, text) for name, one in value.items()}


@pytest.mark.parametrize(("field", "name", "value"), PLACES)
def test_a_line_break_or_control_character_is_refused_by_its_field(
    submitter: httpx.Client, field: str, name: str, value: Any
) -> None:
    for text in BREAKS:
        response = submitter.post("/v1/emails", json=MAIL | {name: _broken(value, text)})
        assert fields(problem(response, 422, "invalid")) == [(None, field)], repr(text)
        assert "spy" not in response.text


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"to": []}, "to"),
        ({"to": [f"a{number}@customer.example" for number in range(1_001)]}, "to"),
        ({"to": ["a@b.example"] * 600, "cc": ["a@b.example"] * 600}, "to"),
        ({"text": None}, "text"),
        ({"text": "a\0b"}, "text"),
        ({"headers": {"Bcc": "spy@evil.example"}}, "headers.Bcc"),
        ({"headers": {"Subject": "another"}}, "headers.Subject"),
        ({"headers": {"X-Number": 3}}, "headers[...]"),
        ({"attachments": [{"filename": "a", "content": "not base64!"}]}, "attachments[0].content"),
        ({"ttl": 0}, "ttl"),
        ({"ttl": -1}, "ttl"),
        ({"ttl": 1e300}, "ttl"),
        ({"ttl": "60"}, "ttl"),
        ({"to": 7}, "to"),
        ({"subject": None}, "subject"),
    ],
)
def test_a_mail_that_cannot_be_sent_is_refused_by_its_field(
    submitter: httpx.Client, change: dict[str, Any], field: str
) -> None:
    response = submitter.post("/v1/emails", json=MAIL | change)
    assert fields(problem(response, 422, "invalid")) == [(None, field)]


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"delay": -1}, "delay"),
        ({"delay": 1e12}, "delay"),
        ({"ttl": 0}, "ttl"),
        ({"dedupe": ""}, "dedupe"),
        ({"dedupe": "x" * 513}, "dedupe"),
        ({"dedupe": "a\nb"}, ""),
        ({"track": "redrive"}, "track"),
        ({"headers": {"a\r\nb": "c"}}, ""),
        ({"headers": {"a": "b\0c"}}, ""),
        ({"headers": {"a": "b" * 20_000}}, ""),
        ({"tenant": "globex"}, "tenant"),
    ],
)
def test_a_message_that_cannot_be_accepted_is_refused(
    submitter: httpx.Client, change: dict[str, Any], field: str
) -> None:
    message = {"payload": 1} | change
    assert fields(problem(submitter.post(ORDERS, json=message), 422, "invalid")) == [(None, field)]
    listed = submitter.post(ORDERS, json=[{"payload": 1}, message, message])
    assert fields(problem(listed, 422, "invalid")) == [(1, field), (2, field)]


@pytest.mark.parametrize("path", ["/v1/emails", "/v1/emails/batch", ORDERS])
@pytest.mark.parametrize("body", [b"", b"{", b"\xff\xfe", b"nul", b"\0", b"NaN", b"{'a': 1}"])
def test_what_is_no_json_is_refused(submitter: httpx.Client, path: str, body: bytes) -> None:
    problem(submitter.post(path, content=body, headers=JSON), 400, "bad-json")


@pytest.mark.parametrize("text", [b"\xff", rb"\ud800", b"\0", b"\n"])
def test_text_that_is_no_text_is_refused(submitter: httpx.Client, text: bytes) -> None:
    mail = submitter.post("/v1/emails", content=b'{"from": "' + text + b'"}', headers=JSON)
    problem(mail, 400, "bad-json")
    message = b'{"payload": {"a": "' + text + b'"}}'
    problem(submitter.post(ORDERS, content=message, headers=JSON), 400, "bad-json")
    listed = submitter.post(ORDERS, content=b"[" + message + b"]", headers=JSON)
    assert listed.status_code in (400, 422)


@pytest.mark.parametrize("body", [b"[]", b"3", b'"text"', b"null", b"{}"])
@pytest.mark.parametrize("path", ["/v1/emails", "/v1/emails/batch", ORDERS])
def test_json_of_another_shape_is_refused(submitter: httpx.Client, path: str, body: bytes) -> None:
    problem(submitter.post(path, content=body, headers=JSON), 422, "invalid")


@pytest.mark.parametrize("opening", ["[", '{"a":'])
@pytest.mark.parametrize("depth", [33, 100_000])
def test_a_payload_deeper_than_32_levels_is_refused(
    submitter: httpx.Client, opening: str, depth: int
) -> None:
    closing = {"[": "]", '{"a":': "}"}[opening]
    body = '{"payload": ' + opening * depth + "1" + closing * depth + "}"
    problem(submitter.post(ORDERS, content=body, headers=JSON), 400, "bad-json")


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data"])
def test_another_content_type_is_refused(submitter: httpx.Client, kind: str) -> None:
    for path in ("/v1/emails", "/v1/emails/batch", ORDERS):
        response = submitter.post(path, content=json.dumps(MAIL), headers={"Content-Type": kind})
        problem(response, 415, "not-json")


@pytest.mark.parametrize(
    ("path", "most"), [("/v1/emails", 25 << 20), ("/v1/emails/batch", 25 << 20), (ORDERS, 8 << 20)]
)
def test_a_body_is_refused_while_it_arrives(submitter: httpx.Client, path: str, most: int) -> None:
    def endless() -> Iterator[bytes]:
        for _ in range(most // 65_536 + 2):
            yield b" " * 65_536

    problem(submitter.post(path, content=endless(), headers=JSON), 413, "too-large")


async def test_a_body_that_is_declared_too_large_is_not_waited_for(
    served: Served, submitter: httpx.Client
) -> None:
    head = (
        "POST /v1/emails HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
        f"Authorization: {submitter.headers['authorization']}\r\nContent-Length: 99999999999\r\n\r\n"
    )
    async with asyncio.timeout(10):
        reader, writer = await asyncio.open_connection("127.0.0.1", httpx.URL(served.url).port)
        writer.write(head.encode())
        assert await reader.readline() == b"HTTP/1.1 413 Request Entity Too Large\r\n"
    writer.close()


def test_a_payload_above_1_mib_is_too_large(submitter: httpx.Client) -> None:
    message = {"payload": "a" * (1 << 20)}
    problem(submitter.post(ORDERS, json=message), 413, "too-large")
    problem(submitter.post(ORDERS, json=[{"payload": 1}, message]), 413, "too-large")


@pytest.mark.parametrize("queue", ["a b", "a*", "%7Bx%7D", "%00", "q" * 129, "email:send"])
def test_a_queue_with_no_name_or_of_the_gateway_is_refused(submitter: httpx.Client, queue: str) -> None:
    response = submitter.post(f"/v1/queues/{queue}/messages", json={"payload": 1})
    assert fields(problem(response, 422, "invalid")) == [(None, "queue")]


def test_a_refusal_says_what_to_do_instead(submitter: httpx.Client, served: Served) -> None:
    wrong = problem(submitter.post(ORDERS, json={"payload": 1, "track": "fast"}), 422, "invalid")
    assert wrong["errors"] == [{"field": "track", "problem": "is none of bulk, main"}]
    assert problem(submitter.get(ORDERS), 405, "method-not-allowed")["detail"] == "use POST"
    undeclared = problem(submitter.post(ORDERS, content=b"{}"), 415, "not-json")
    assert undeclared["detail"] == "send the header Content-Type: application/json"
    with served.client(Role.ADMIN) as admin:
        forbidden = problem(admin.post(ORDERS, json={"payload": 1}), 403, "forbidden")
        assert forbidden["detail"].endswith("has no permission to submit: use one with role submit")
        order = problem(admin.get("/admin/dlq/letters?order=random"), 422, "invalid")
        assert order["errors"] == [{"field": "order", "problem": "is none of newest, oldest"}]
